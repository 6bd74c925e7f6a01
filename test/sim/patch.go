package sim

import (
	"encoding/json"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// patch applies a merge patch as the API server does: a resourceVersion in it is a precondition, the main resource
// ignores the status and the status subresource all else, and a patch that changes nothing is no write. What is stored
// afterwards is copied into o.
func (s *server) patch(by *task, o client.Object, p client.Patch, status bool) error {
	k, name := kindOf(o), keyOf(o)
	before := s.objects[k][name]
	if before == nil {
		return notFound(k, name)
	}
	if p.Type() != types.MergePatchType {
		return fmt.Errorf("the model takes merge patches, not %s", p.Type())
	}
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	var meta struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return err
	}
	if v := meta.Metadata.ResourceVersion; v != "" && v != before.GetResourceVersion() {
		return conflict(k, name, "the object has been modified")
	}
	after, err := merged(before, data)
	if err != nil {
		return err
	}
	after.SetResourceVersion(before.GetResourceVersion())
	after.SetUID(before.GetUID())
	restrict(before, after, status)
	if !equality.Semantic.DeepEqual(before, after) {
		s.put(by, after)
		if now := s.objects[k][name]; now != nil {
			after = now
		}
	}
	copyInto(after, o)
	return nil
}

func merged(before client.Object, patch []byte) (client.Object, error) {
	data, err := json.Marshal(before)
	if err != nil {
		return nil, err
	}
	if data, err = jsonpatch.MergePatch(data, patch); err != nil {
		return nil, err
	}
	var after client.Object
	switch before.(type) {
	case *corev1.Node:
		after = &corev1.Node{}
	case *v1alpha1.Reservation:
		after = &v1alpha1.Reservation{}
	default:
		return nil, fmt.Errorf("the model patches no %T", before)
	}
	return after, json.Unmarshal(data, after)
}

// restrict takes back what the endpoint does not write: all but the status, or the status.
func restrict(before, after client.Object, status bool) {
	switch after := after.(type) {
	case *corev1.Node:
		was := *before.(*corev1.Node)
		if status {
			was.Status = after.Status
			was.DeepCopyInto(after)
		} else {
			after.Status = was.Status
		}
	case *v1alpha1.Reservation:
		was := *before.(*v1alpha1.Reservation)
		switch {
		case status:
			was.Status = after.Status
			was.DeepCopyInto(after)
		default:
			after.Status = was.Status
			if !equality.Semantic.DeepEqual(was.Spec, after.Spec) {
				after.Generation = was.Generation + 1
			}
		}
	}
}

func copyInto(from, to client.Object) {
	switch from := from.(type) {
	case *corev1.Node:
		from.DeepCopyInto(to.(*corev1.Node))
	case *v1alpha1.Reservation:
		from.DeepCopyInto(to.(*v1alpha1.Reservation))
	case *v1alpha1.ReservationBinding:
		from.DeepCopyInto(to.(*v1alpha1.ReservationBinding))
	case *corev1.ConfigMap:
		from.DeepCopyInto(to.(*corev1.ConfigMap))
	case *corev1.Pod:
		from.DeepCopyInto(to.(*corev1.Pod))
	default:
		panic(fmt.Sprintf("the model copies no %T", from))
	}
}
