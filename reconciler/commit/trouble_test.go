package commit

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fluxcd/pkg/gittestserver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/source/fetch"
	"github.com/reservation-operator/reservation-operator/source/render"
)

// Nothing to apply is not the same as delete everything.
func TestCases_A02_NothingToApply(t *testing.T) {
	start(t)
	settling(t, nil)
	empty := filepath.Join(t.TempDir(), "empty.git")
	require.NoError(t, exec.CommandContext(t.Context(), "git", "init", "--quiet", "--bare", empty).Run())
	three := map[string]string{"tenants/1.yaml": reservationYAML("nothing-1"), "tenants/2.yaml": reservationYAML("nothing-2"), "tenants/3.yaml": reservationYAML("nothing-3")}
	none := map[string]string{"tenants/1.yaml": "", "tenants/2.yaml": "", "tenants/3.yaml": ""}
	with := func(file, text string) map[string]string {
		out := map[string]string{file: text}
		for name := range none {
			out[name] = ""
		}
		return out
	}
	left := func(c require.TestingT) (n int) {
		for _, name := range []string{"nothing-1", "nothing-2", "nothing-3"} {
			if get(c, &v1alpha1.Reservation{}, name) {
				n++
			}
		}
		return n
	}
	for name, tc := range map[string]struct {
		url        string            // another repository, or
		files      map[string]string // another commit
		wantReason string
		mayAllow   bool
	}{
		"(a) no commits":                {url: empty, wantReason: v1alpha1.ReasonRepositoryEmpty},
		"(b) no such path":              {files: none, wantReason: v1alpha1.ReasonPathNotFound},
		"(c) only a README":             {files: with("tenants/README.md", "nothing\n"), wantReason: v1alpha1.ReasonCommitRejected, mayAllow: true},
		"(d) a kustomization of naught": {files: with("tenants/kustomization.yaml", "resources: []\n"), wantReason: v1alpha1.ReasonCommitRejected, mayAllow: true},
		"(e) a list of naught":          {files: with("tenants/list.yaml", "apiVersion: v1\nkind: List\nitems:\n"), wantReason: v1alpha1.ReasonCommitRejected, mayAllow: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := repository(t, three)
			s := follow(t, r.URL, func(s *v1alpha1.ReservationSource) { s.Name, s.Spec.Path = "nothing", "tenants" })
			good := r.head()
			before := awaitReady(t, s, good)
			if tc.url != "" {
				change(t, s, func(s *v1alpha1.ReservationSource) { s.Spec.URL = tc.url })
			} else {
				r.commit("Nothing", tc.files)
			}
			s = awaitReason(t, s, tc.wantReason)
			require.NotEmpty(t, ready(s).Message)
			require.Equal(t, before.Status.Inventory, s.Status.Inventory)
			require.Equal(t, good, s.Status.LastAppliedRevision)
			require.Equal(t, 3, left(t))

			if tc.mayAllow {
				change(t, s, func(s *v1alpha1.ReservationSource) { s.Spec.AllowEmpty = true })
				eventually(t, func(c *assert.CollectT) {
					require.Empty(c, latest(c, s).Status.Inventory)
					require.Equal(c, 0, left(c))
				})
			}
		})
	}
}

func change(t *testing.T, s *v1alpha1.ReservationSource, f func(*v1alpha1.ReservationSource)) {
	t.Helper()
	before := latest(t, s)
	after := before.DeepCopy()
	f(after)
	require.NoError(t, admin.Patch(t.Context(), after, client.MergeFrom(before)))
}

// A commit of which only a part could be written, and which is then reverted, leaves no orphans.
func TestPartialFailureThenRevert(t *testing.T) {
	k := start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("part-a", "part-a1"), "gone.yaml": reservationYAML("part-gone", "part-g1")})
	s := follow(t, r.URL, nil)
	awaitReady(t, s, r.head())
	k.failOn(func(o client.Object, trial bool) error {
		if o.GetName() == "part-c" && !trial {
			return apierrors.NewServiceUnavailable("not now")
		}
		return nil
	})
	bad, revision := r.commit("Two more, one fewer", map[string]string{"b.yaml": reservationYAML("part-b", "part-b1"), "c.yaml": reservationYAML("part-c", "part-c1"), "gone.yaml": ""})
	s = awaitReason(t, s, v1alpha1.ReasonApplyFailed, "c.yaml:1: Reservation part-c", "not now")
	require.Equal(t, v1alpha1.OutcomeFailed, s.Status.History[0].Outcome)
	require.Equal(t, revision, s.Status.LastAttemptedRevision)
	require.True(t, get(t, &v1alpha1.Reservation{}, "part-b"), "one failure holds up no other object")
	require.True(t, get(t, &v1alpha1.Reservation{}, "part-gone"), "nothing is deleted while something is missing")
	require.Len(t, s.Status.Inventory, 4)

	_, err := r.Revert(bad)
	require.NoError(t, err)
	s = awaitReady(t, s, r.head())
	require.Len(t, s.Status.Inventory, 2)
	eventually(t, func(c *assert.CollectT) {
		require.False(c, get(c, &v1alpha1.Reservation{}, "part-b"))
		require.True(c, get(c, &v1alpha1.Reservation{}, "part-gone"))
	})

	k.failOn(nil)
	_, err = r.Revert(r.head()[len("main@sha1:"):])
	require.NoError(t, err)
	s = awaitReady(t, s, r.head())
	require.True(t, get(t, &v1alpha1.Reservation{}, "part-c"))
	require.Equal(t, int32(2), s.Status.History[0].Created)
	require.Equal(t, int32(1), s.Status.History[0].Deleted)
}

func TestFailedCommitIsRetried(t *testing.T) {
	k := start(t)
	settling(t, nil)
	k.failOn(func(o client.Object, trial bool) error {
		if o.GetName() == "retried-b" && !trial {
			return apierrors.NewServiceUnavailable("not now")
		}
		return nil
	})
	r := repository(t, map[string]string{"a.yaml": reservationYAML("retried-a", "ra"), "b.yaml": reservationYAML("retried-b", "rb")})
	s := follow(t, r.URL, nil)
	s = awaitReason(t, s, v1alpha1.ReasonApplyFailed, "retried-b")
	require.Empty(t, s.Status.LastAppliedRevision)
	k.failOn(nil)
	s = awaitReady(t, s, r.head())
	require.Len(t, s.Status.History, 1)
	require.Equal(t, int32(2), s.Status.History[0].Created)
	require.Equal(t, v1alpha1.OutcomeApplied, s.Status.History[0].Outcome)
}

func TestReservationThatIsBeingDeletedIsAwaited(t *testing.T) {
	start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("dying", "dying-1"), "b.yaml": reservationYAML("living", "living-1")})
	s := follow(t, r.URL, nil)
	awaitReady(t, s, r.head())
	live := &v1alpha1.Reservation{}
	require.True(t, get(t, live, "dying"))
	live.Finalizers = []string{v1alpha1.FinalizerRelease}
	require.NoError(t, admin.Update(t.Context(), live))
	gone, _ := r.commit("Without dying", map[string]string{"a.yaml": ""})
	s = awaitReason(t, s, v1alpha1.ReasonConverging, "dying is being deleted")
	revert, err := r.Revert(gone)
	require.NoError(t, err)
	awaitReason(t, s, v1alpha1.ReasonProgressing, "Reservation dying is being deleted and is made again when it is gone")

	require.True(t, get(t, live, "dying"))
	uid := live.UID
	live.Finalizers = nil
	require.NoError(t, admin.Update(t.Context(), live))
	awaitReady(t, s, "main@sha1:"+revert)
	require.True(t, get(t, live, "dying"))
	require.NotEqual(t, uid, live.UID)
}

func TestPrune(t *testing.T) {
	start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"keeps.yaml": reservationYAML("keeps", "keeps-1"), "goes.yaml": tenantYAML("prune-goes", "goes-1")})
	s := follow(t, r.URL, nil)
	awaitReady(t, s, r.head())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prune-goes", Name: "running"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	// Without a controller manager there are no service accounts.
	require.NoError(t, client.IgnoreAlreadyExists(admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "prune-goes", Name: "default"}})))
	require.NoError(t, admin.Create(t.Context(), pod))
	_, revision := r.commit("Without goes", map[string]string{"goes.yaml": ""})
	s = awaitReady(t, s, revision)
	require.Contains(t, ready(s).Message, "Namespace prune-goes is kept until the pods in it have ended")
	require.Len(t, s.Status.Inventory, 2)
	require.Equal(t, int32(3), s.Status.History[0].Deleted)
	require.False(t, get(t, &v1alpha1.Reservation{}, "prune-goes"))
	require.False(t, get(t, &v1alpha1.ReservationBinding{}, "prune-goes", "binding"))
	ns := &corev1.Namespace{}
	require.True(t, get(t, ns, "prune-goes"))
	require.Nil(t, ns.DeletionTimestamp)

	pod.Status.Phase = corev1.PodSucceeded
	require.NoError(t, admin.Status().Update(t.Context(), pod))
	eventually(t, func(c *assert.CollectT) {
		require.True(c, get(c, ns, "prune-goes"))
		require.NotNil(c, ns.DeletionTimestamp)
		require.Equal(c, "applied "+revision+": 1 reservation, 1 node locked", ready(latest(c, s)).Message)
		require.Len(c, latest(c, s).Status.Inventory, 1)
	})
}

func TestPruneFalseKeepsWhatIsGone(t *testing.T) {
	start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("stays-a", "sa"), "b.yaml": reservationYAML("stays-b", "sb")})
	off := false
	s := follow(t, r.URL, func(s *v1alpha1.ReservationSource) { s.Spec.Prune = &off })
	awaitReady(t, s, r.head())
	_, revision := r.commit("Without b", map[string]string{"b.yaml": ""})
	s = awaitReady(t, s, revision)
	require.True(t, get(t, &v1alpha1.Reservation{}, "stays-b"))
	require.Len(t, s.Status.Inventory, 1)
	// Its nodes are still taken.
	r.commit("What b still has", map[string]string{"c.yaml": reservationYAML("stays-c", "sb")})
	awaitReason(t, s, v1alpha1.ReasonCommitRejected, "c.yaml", "the live Reservation stays-b of the source "+s.Name)
}

func TestTwoSourcesDoNotShareAnObject(t *testing.T) {
	start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("shared", "shared-1")})
	one := follow(t, r.URL, func(s *v1alpha1.ReservationSource) { s.Name = "one" })
	awaitReady(t, one, r.head())
	two := follow(t, r.URL, func(s *v1alpha1.ReservationSource) { s.Name = "two" })
	awaitReason(t, two, v1alpha1.ReasonCommitRejected, "Reservation shared: belongs to the source one")
}

func TestDisabledObjectIsSkippedAndReported(t *testing.T) {
	start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("glass", "glass-1")})
	s := follow(t, r.URL, nil)
	awaitReady(t, s, r.head())
	live := &v1alpha1.Reservation{}
	require.True(t, get(t, live, "glass"))
	live.Annotations[v1alpha1.AnnotationReconcile] = "disabled"
	live.Spec.ReservedNodes = nil
	live.Spec.NodeSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "x"}}
	require.NoError(t, admin.Update(t.Context(), live))
	_, revision := r.commit("Ignored", map[string]string{"a.yaml": reservationYAML("glass", "glass-2")})
	s = awaitReady(t, s, revision)
	require.Contains(t, ready(s).Message, "Reservation glass is left as it is, because it is annotated scheduling.coreweave.cloud/reconcile=disabled")
	require.True(t, get(t, live, "glass"))
	require.Nil(t, live.Spec.ReservedNodes)

	delete(live.Annotations, v1alpha1.AnnotationReconcile)
	live.Spec.NodeSelector = nil
	live.Spec.ReservedNodes = []string{}
	require.NoError(t, admin.Update(t.Context(), live))
	eventually(t, func(c *assert.CollectT) {
		require.True(c, get(c, live, "glass"))
		require.Equal(c, []string{"glass-2"}, live.Spec.ReservedNodes)
	})
}

func TestSecretIsMissing(t *testing.T) {
	start(t)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("secret")})
	s := follow(t, r.URL, func(s *v1alpha1.ReservationSource) { s.Spec.SecretRef = &v1alpha1.LocalReference{Name: "not-there"} })
	s = awaitReason(t, s, v1alpha1.ReasonSecretNotFound, "there is no Secret not-there in the namespace reservation-operator")
	require.Equal(t, s.Generation, s.Status.ObservedGeneration)
	require.NotNil(t, s.GetConditions())
}

// A real server refuses the credentials: that is said, without them. Who has corrected the Secret may ask for another
// try, however long the interval.
func TestWrongCredentials(t *testing.T) {
	k := start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("guarded", "guarded-1")})
	server := gittestserver.NewGitServer(filepath.Dir(r.URL))
	server.Auth("ada", "the-right-one")
	require.NoError(t, server.StartHTTP())
	t.Cleanup(server.StopHTTP)
	const wrong = "hunter2-hunter2"
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OperatorNamespace, Name: "guarded"},
		StringData: map[string]string{"username": "ada", "password": wrong},
	}
	require.NoError(t, admin.Create(t.Context(), secret))
	t.Cleanup(func() { _ = admin.Delete(context.Background(), secret) })
	s := follow(t, server.HTTPAddress()+"/tenants.git", func(s *v1alpha1.ReservationSource) {
		s.Spec.SecretRef = &v1alpha1.LocalReference{Name: secret.Name}
		s.Spec.Interval.Duration = time.Hour
	})
	s = awaitReason(t, s, v1alpha1.ReasonAuthenticationFailed, server.HTTPAddress(), "refuses the credentials")
	require.Equal(t, metav1.ConditionFalse, ready(s).Status)
	require.True(t, meta.IsStatusConditionTrue(s.Status.Conditions, v1alpha1.ConditionStalled))
	require.Equal(t, s.Generation, s.Status.ObservedGeneration)
	require.Empty(t, s.Status.Inventory)

	secret.StringData = map[string]string{"password": "the-right-one"}
	require.NoError(t, admin.Update(t.Context(), secret))
	change(t, s, func(s *v1alpha1.ReservationSource) {
		s.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequest: "the Secret is right now"}
	})
	s = awaitReady(t, s, r.head())
	status, err := json.Marshal(s.Status)
	require.NoError(t, err)
	logs := k.logged()
	require.NotEmpty(t, logs)
	for _, said := range []string{string(status), logs, strings.Join(k.emitted(), "\n"), strings.Join(k.reported(), "\n")} {
		require.NotContains(t, said, wrong)
		require.NotContains(t, said, "the-right-one")
		require.NotContains(t, said, base64.StdEncoding.EncodeToString([]byte("ada:"+wrong)))
	}
}

func TestRepositoryComesBack(t *testing.T) {
	start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("back", "back-1")})
	away := filepath.Join(t.TempDir(), "away.git")
	s := follow(t, away, nil)
	awaitReason(t, s, v1alpha1.ReasonRepositoryNotFound)
	require.NoError(t, r.Git("clone", "--quiet", "--bare", r.URL, away))
	awaitReady(t, s, r.head())
}

// A commit whose rendering does not end is given up, holds up no other source, and is not tried again soon.
func TestRenderingThatDoesNotEnd(t *testing.T) {
	k := start(t, func(r *Reconciler) {
		r.Chain.RenderTimeout = 200 * time.Millisecond
		r.Chain.Render = func(ctx context.Context, tree fs.FS, path string, l render.Limits) ([]render.Object, []render.Finding, error) {
			if path == "endless" {
				<-ctx.Done()
				return nil, nil, ctx.Err()
			}
			return render.Render(ctx, tree, path, l)
		}
		r.Concurrency = 1
	})
	settling(t, nil)
	r := repository(t, map[string]string{"endless/a.yaml": reservationYAML("endless"), "quick/a.yaml": reservationYAML("quick", "quick-1")})
	endless := follow(t, r.URL, func(s *v1alpha1.ReservationSource) { s.Name, s.Spec.Path = "endless", "endless" })
	quick := follow(t, r.URL, func(s *v1alpha1.ReservationSource) { s.Name, s.Spec.Path = "quick", "quick" })
	awaitReady(t, quick, r.head())
	endless = awaitReason(t, endless, v1alpha1.ReasonRenderFailed, r.head(), "took longer than 200ms")
	require.True(t, meta.IsStatusConditionTrue(endless.Status.Conditions, v1alpha1.ConditionStalled))
	looks, loads := k.looks.Load(), k.loads.Load()
	k.later.Add(int64(2 * recheck))
	eventually(t, func(c *assert.CollectT) { require.GreaterOrEqual(c, k.looks.Load(), looks+6) })
	require.Equal(t, loads, k.loads.Load())
	k.later.Add(int64(resync))
	eventually(t, func(c *assert.CollectT) { require.GreaterOrEqual(c, k.loads.Load(), loads+2, "each source once more") })
}

func TestRejectedCommitIsCuredInTheCluster(t *testing.T) {
	k := start(t)
	settling(t, nil)
	stranger := &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "in-the-way"}, Spec: v1alpha1.ReservationSpec{Tenant: "way", ReservedNodes: []string{"way-1"}}}
	require.NoError(t, admin.Create(t.Context(), stranger))
	t.Cleanup(func() { _ = admin.Delete(t.Context(), stranger) })
	r := repository(t, map[string]string{"a.yaml": reservationYAML("cured", "way-1")})
	s := follow(t, r.URL, nil)
	awaitReason(t, s, v1alpha1.ReasonCommitRejected, "the live Reservation in-the-way")
	require.NoError(t, admin.Delete(t.Context(), stranger))
	change(t, s, func(s *v1alpha1.ReservationSource) {
		s.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequest: "cured"}
	})
	s = awaitReady(t, s, r.head())
	require.Len(t, s.Status.History, 1)
	require.Equal(t, v1alpha1.OutcomeApplied, s.Status.History[0].Outcome)
	require.True(t, strings.HasPrefix(k.reported()[0], r.head()+" pending"))
}

// What the cluster lacks is not the commit's fault, and nothing of the commit is applied meanwhile.
func TestClusterIsInTheWay(t *testing.T) {
	for name, tc := range map[string]struct {
		err         error
		wantReason  string
		wantMessage string
		wantHistory int
	}{
		"no CRD": {
			err:        &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: v1alpha1.Group, Kind: "Reservation"}, SearchedVersions: []string{"v1alpha1"}},
			wantReason: v1alpha1.ReasonCRDMissing, wantMessage: "install the operator's CRDs (config/crd)", wantHistory: 1},
		"an API server that is busy": {
			err: apierrors.NewTooManyRequests("busy", 1), wantReason: v1alpha1.ReasonApplyFailed, wantMessage: "busy"},
	} {
		t.Run(name, func(t *testing.T) {
			k := start(t)
			settling(t, nil)
			k.failOn(func(o client.Object, trial bool) error {
				if o.GetName() == "way-b" && trial {
					return tc.err
				}
				return nil
			})
			r := repository(t, map[string]string{"a.yaml": reservationYAML("way-a"), "b.yaml": reservationYAML("way-b")})
			s := follow(t, r.URL, nil)
			s = awaitReason(t, s, tc.wantReason, tc.wantMessage)
			require.Len(t, s.Status.History, tc.wantHistory)
			require.Empty(t, s.Status.Inventory)
			require.False(t, get(t, &v1alpha1.Reservation{}, "way-a"))
			k.failOn(nil)
			change(t, s, func(s *v1alpha1.ReservationSource) {
				s.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequest: "again"}
			})
			s = awaitReady(t, s, r.head())
			require.Equal(t, int32(2), s.Status.History[0].Created)
		})
	}
}

// A fetch that fails once, after the repository said that there is a new commit, is tried again at once: the verdict on the
// commit before says nothing of this one.
func TestAFetchThatFailsOnceIsTriedAgain(t *testing.T) {
	var fail atomic.Bool
	k := start(t, func(r *Reconciler) {
		fetched := r.Chain.Fetch
		r.Chain.Fetch = func(ctx context.Context, remote fetch.Remote, h fetch.Head, l fetch.Limits) (*fetch.Commit, error) {
			if fail.CompareAndSwap(true, false) {
				return nil, errors.New("connection reset")
			}
			return fetched(ctx, remote, h, l)
		}
	})
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("refetched", "refetched-1")})
	s := awaitReady(t, follow(t, r.URL, func(s *v1alpha1.ReservationSource) { s.Spec.Interval.Duration = time.Hour }), r.head())
	r.commit("more", map[string]string{"a.yaml": reservationYAML("refetched", "refetched-1", "refetched-2")})
	fail.Store(true)
	k.later.Store(int64(time.Hour))
	// What brings it in hand, an hour later, is a Reservation's status.
	live := &v1alpha1.Reservation{}
	require.True(t, get(t, live, "refetched"))
	patch := client.MergeFrom(live.DeepCopy())
	live.Status.Nodes = nil
	require.NoError(t, admin.Status().Patch(t.Context(), live, patch))
	awaitReady(t, s, r.head())
	require.False(t, fail.Load())
}
