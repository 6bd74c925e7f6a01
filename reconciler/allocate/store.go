package allocate

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// EnsureIndex makes the index if there is none, with what the nodes' locks and the Reservations say. The fences deny
// every pod while it is missing, so it has to be there before they are; and it is never there empty while nodes are
// locked, or the fences would stand open. It may be called by several replicas at once.
func EnsureIndex(ctx context.Context, live client.Reader, w client.Writer, namespace string, now time.Time) (*corev1.ConfigMap, error) {
	stored, index, lost, err := loadIndex(ctx, live, namespace, now)
	if err != nil || !lost {
		return stored, err
	}
	snapshot, err := gather(ctx, live, index)
	if err != nil {
		return nil, err
	}
	if _, err := writeIndex(ctx, w, stored, Decide(snapshot).Index); err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) {
		return nil, err
	}
	stored, _, _, err = loadIndex(ctx, live, namespace, now)
	return stored, err
}

// loadIndex reads the index ConfigMap as the API server has it. Lost says that there is none or that it cannot be
// read: then the index grants nothing, and the ConfigMap is what writeIndex replaces.
func loadIndex(ctx context.Context, live client.Reader, namespace string, now time.Time) (stored *corev1.ConfigMap, index Index, lost bool, err error) {
	key := types.NamespacedName{Namespace: namespace, Name: v1alpha1.IndexName}
	stored = &corev1.ConfigMap{}
	switch err := live.Get(ctx, key, stored); {
	case apierrors.IsNotFound(err):
		stored = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		return stored, empty(now), true, nil
	case err != nil:
		return nil, Index{}, false, fmt.Errorf("reading the index %s: %w", key, err)
	}
	if index, err = Parse(stored.Data); err != nil {
		// Somebody else wrote it. The nodes' own locks say who holds what.
		logf.FromContext(ctx).Error(err, "the index cannot be read; it is rebuilt from the nodes")
		return stored, empty(now), true, nil
	}
	// Without a version, nobody has written it yet, or somebody emptied it.
	if index.Version == 0 {
		return stored, empty(now), true, nil
	}
	return stored, index, false, nil
}

// empty returns an index that grants nothing. Its version is the time in seconds, which is above that of any index
// that was lost: the counter grows by far less than one a second.
func empty(now time.Time) Index {
	return Index{Version: now.Unix(), Grants: map[string]Grant{}}
}

// writeIndex stores a decided index in place of the ConfigMap that the decision was made from, whose resourceVersion
// is the precondition, and returns it with its version. What is stored just so already is not written.
func writeIndex(ctx context.Context, w client.Writer, stored *corev1.ConfigMap, decided Index) (Index, error) {
	data := decided.Data()
	if maps.Equal(stored.Data, data) {
		return decided, nil
	}
	decided.Version++
	data[KeyVersion] = strconv.FormatInt(decided.Version, 10)
	updated := &corev1.ConfigMap{ObjectMeta: *stored.ObjectMeta.DeepCopy(), Immutable: stored.Immutable, Data: data}
	var err error
	if stored.ResourceVersion == "" {
		err = w.Create(ctx, updated, client.FieldOwner(v1alpha1.FieldManager))
	} else {
		err = w.Update(ctx, updated, client.FieldOwner(v1alpha1.FieldManager))
	}
	if err != nil {
		return Index{}, fmt.Errorf("writing the index: %w", err)
	}
	return decided, nil
}
