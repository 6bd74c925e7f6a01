package commit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

func TestGoodCommitIsApplied(t *testing.T) {
	k := start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"tenants/good.yaml": tenantYAML("good", "good-1", "good-2"), "elsewhere/x.yaml": reservationYAML("elsewhere")})
	s := follow(t, r.URL, func(s *v1alpha1.ReservationSource) { s.Spec.Path = "tenants" })
	s = awaitReady(t, s, r.head())

	require.Equal(t, "applied "+r.head()+": 1 reservation, 2 nodes locked", ready(s).Message)
	require.Equal(t, r.head(), s.Status.LastAttemptedRevision)
	require.Equal(t, []v1alpha1.InventoryEntry{
		{Version: "v1", Kind: "Namespace", Name: "good"},
		{Version: "v1", Kind: "ResourceQuota", Namespace: "good", Name: "quota"},
		{Group: v1alpha1.Group, Version: "v1alpha1", Kind: "Reservation", Name: "good"},
		{Group: v1alpha1.Group, Version: "v1alpha1", Kind: "ReservationBinding", Namespace: "good", Name: "binding"},
	}, s.Status.Inventory)
	require.Len(t, s.Status.History, 1)
	e := s.Status.History[0]
	require.Equal(t, v1alpha1.OutcomeApplied, e.Outcome)
	require.Equal(t, "Platform Team", e.Author)
	require.NotEmpty(t, e.Subject)
	require.Equal(t, int32(4), e.Created)
	require.NotNil(t, e.Time)
	require.NotNil(t, e.AppliedAt)
	require.NotNil(t, e.ConvergedAt)
	require.Contains(t, e.Message, "4 objects created")
	require.Contains(t, e.Message, "no node of that name exists: good-1, good-2")

	live := &v1alpha1.Reservation{}
	require.True(t, get(t, live, "good"))
	require.Equal(t, s.Name, live.Labels[v1alpha1.LabelSource])
	require.Equal(t, r.head(), live.Annotations[v1alpha1.AnnotationRevision])
	require.False(t, get(t, &v1alpha1.Reservation{}, "elsewhere"))

	reports := k.reported()
	require.Equal(t, r.head()+" pending: being checked", reports[0])
	require.Equal(t, r.head()+" success: 1 reservation, 2 nodes locked", reports[len(reports)-1])
	require.Contains(t, <-k.events.Events, "Normal CommitApplied applied "+r.head())
}

func TestSourceConvergesWithItsNodes(t *testing.T) {
	start(t)
	release := draining(t, "slow-2", 3)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("slow", "slow-1", "slow-2")})
	s := follow(t, r.URL, func(s *v1alpha1.ReservationSource) { s.Spec.Interval.Duration = time.Hour })
	s = awaitReason(t, s, v1alpha1.ReasonConverging, "applied "+r.head()+": 1 locked, slow-2 draining: 3 pods")
	require.Equal(t, v1alpha1.OutcomeApplied, s.Status.History[0].Outcome)
	require.Nil(t, s.Status.History[0].ConvergedAt)
	require.Equal(t, s.Generation, s.Status.ObservedGeneration)
	release()
	s = awaitReady(t, s, r.head()) // long before the next look
	require.NotNil(t, s.Status.History[0].ConvergedAt)
}

// A bad commit that follows at once does not keep the nodes of the good one from being noted.
func TestConvergenceIsNotedBehindABadCommit(t *testing.T) {
	start(t)
	release := draining(t, "behind-2", 3)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("behind", "behind-1", "behind-2")})
	s := follow(t, r.URL, nil)
	awaitReason(t, s, v1alpha1.ReasonConverging)
	r.commit("Broken", map[string]string{"b.yaml": "kind: [\n"})
	s = awaitReason(t, s, v1alpha1.ReasonCommitRejected)
	require.Nil(t, s.Status.History[1].ConvergedAt)
	release()
	eventually(t, func(c *assert.CollectT) { require.NotNil(c, latest(c, s).Status.History[1].ConvergedAt) })
	require.Nil(t, latest(t, s).Status.History[0].ConvergedAt)
}

func TestOneBadObjectRejectsTheWholeCommit(t *testing.T) {
	k := start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"whole.yaml": reservationYAML("whole", "whole-1"), "goes.yaml": reservationYAML("goes", "goes-1")})
	s := follow(t, r.URL, nil)
	good := r.head()
	before := awaitReady(t, s, good)
	k.written()

	_, bad := r.commit("One good change, one removal and one bad object", map[string]string{
		"whole.yaml": reservationYAML("whole", "whole-1", "whole-2"), "goes.yaml": "",
		"other.yaml": reservationYAML("other") + "  taintEffect: Whatever\n",
	})
	s = awaitReason(t, s, v1alpha1.ReasonCommitRejected, "other.yaml", "Reservation other", "spec.taintEffect", "NoExecute")
	require.Equal(t, bad, s.Status.LastAttemptedRevision)
	require.Equal(t, good, s.Status.LastAppliedRevision)
	require.Equal(t, before.Status.Inventory, s.Status.Inventory)
	require.Equal(t, v1alpha1.OutcomeRejected, s.Status.History[0].Outcome)
	require.Equal(t, ready(s).Message, s.Status.History[0].Message)
	require.Equal(t, before.Status.History[0], s.Status.History[1])
	live := &v1alpha1.Reservation{}
	require.True(t, get(t, live, "whole"))
	require.Equal(t, []string{"whole-1"}, live.Spec.ReservedNodes)
	require.True(t, get(t, live, "goes"))
	for _, w := range k.written() {
		require.Contains(t, w, "ReservationSource", "nothing but the status was written")
	}
	require.Contains(t, k.reported()[len(k.reported())-1], bad+" failure: other.yaml")
	require.Contains(t, k.logged(), "the commit is rejected")

	_, better := r.commit("Without the bad object", map[string]string{"other.yaml": ""})
	s = awaitReady(t, s, better)
	require.Equal(t, int32(1), s.Status.History[0].Changed)
	require.Equal(t, int32(1), s.Status.History[0].Deleted)
	eventually(t, func(c *assert.CollectT) { require.False(c, get(c, live, "goes")) })
}

func TestBadCommitsNameWhatIsWrong(t *testing.T) {
	start(t)
	settling(t, nil)
	require.NoError(t, admin.Create(t.Context(), &v1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Name: "stranger"}, Spec: v1alpha1.ReservationSpec{Tenant: "stranger", ReservedNodes: []string{"taken"}}}))
	t.Cleanup(func() {
		_ = admin.Delete(t.Context(), &v1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}})
	})
	r := repository(t, map[string]string{"good.yaml": reservationYAML("named", "named-1")})
	s := follow(t, r.URL, nil)
	awaitReady(t, s, r.head())
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"an overlap in the commit":    {reservationYAML("bad", "named-1"), []string{"bad.yaml", "Reservation bad", "spec.reservedNodes", "named-1", "Reservation named in good.yaml"}},
		"an overlap with a live one":  {reservationYAML("bad", "taken"), []string{"bad.yaml", "Reservation bad", "taken", "the live Reservation stranger"}},
		"a duplicate":                 {reservationYAML("named"), []string{"good.yaml", "Reservation named", "twice", "bad.yaml"}},
		"an unknown kind":             {"apiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: default}\n", []string{"bad.yaml", "Secret default/x", "may not be in a tenants' repository"}},
		"an unknown field":            {reservationYAML("bad") + "  reservdNodes: [a]\n", []string{"bad.yaml", "Reservation bad", "spec.reservdNodes", "no such field"}},
		"a quota's unknown field":     {"apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q, namespace: default}\nspec: {hards: {cpu: 1}}\n", []string{"bad.yaml", "ResourceQuota default/q", "spec.hards"}},
		"an unquoted number":          {strings.Replace(reservationYAML("bad"), "tenant: bad", "tenant: 12345", 1), []string{"bad.yaml", "Reservation bad", "spec.tenant", "quote it"}},
		"a rule of the CRD":           {strings.Replace(reservationYAML("bad"), "tenant: bad", "tenant: \"12345\"", 1), []string{"bad.yaml", "Reservation bad", "spec.tenant", "purely numeric"}},
		"broken YAML":                 {"kind: [\n", []string{"bad.yaml"}},
		"a binding to nothing":        {"apiVersion: scheduling.coreweave.cloud/v1alpha1\nkind: ReservationBinding\nmetadata: {name: b, namespace: default}\nspec: {reservationName: none, podSelector: {}}\n", []string{"bad.yaml", "ReservationBinding default/b", "spec.reservationName", "none"}},
		"a namespace that is nowhere": {"apiVersion: v1\nkind: LimitRange\nmetadata: {name: l, namespace: nowhere}\n", []string{"bad.yaml", "nowhere does not exist"}},
		"several at once":             {reservationYAML("bad", "named-1", "taken") + "  a: b\n  c: d\n", []string{"spec.a", "spec.c", "spec.reservedNodes"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, revision := r.commit(name, map[string]string{"bad.yaml": tc.text})
			eventually(t, func(c *assert.CollectT) {
				require.Equal(c, revision, latest(c, s).Status.LastAttemptedRevision)
			})
			awaitReason(t, s, v1alpha1.ReasonCommitRejected, tc.want...)
			require.False(t, get(t, &v1alpha1.Reservation{}, "bad"))
		})
	}
	require.Len(t, latest(t, s).Status.History, 13)
}

func TestRevertIsRecorded(t *testing.T) {
	start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("rev", "rev-1", "rev-2")})
	s := follow(t, r.URL, nil)
	awaitReady(t, s, r.head())
	release, revision := r.commit("Give rev-2 back", map[string]string{"a.yaml": reservationYAML("rev", "rev-1")})
	awaitReady(t, s, revision)
	revert, err := r.Revert(release)
	require.NoError(t, err)
	awaitReady(t, s, "main@sha1:"+revert)
	again, err := r.Revert(revert)
	require.NoError(t, err)
	s = awaitReady(t, s, "main@sha1:"+again)

	require.Len(t, s.Status.History, 4, "an entry per commit, whatever it renders to")
	require.Equal(t, revert, s.Status.History[0].Reverts)
	require.Contains(t, s.Status.History[0].Message, "and so brings back "+short(release))
	require.Equal(t, release, s.Status.History[1].Reverts)
	require.Contains(t, s.Status.History[1].Message, "reverts "+short(release)+" (Give rev-2 back): 1 object changed")
	for _, e := range s.Status.History {
		require.Equal(t, v1alpha1.OutcomeApplied, e.Outcome)
		require.NotNil(t, e.ConvergedAt)
	}
	live := &v1alpha1.Reservation{}
	require.True(t, get(t, live, "rev"))
	require.Equal(t, []string{"rev-1"}, live.Spec.ReservedNodes)
}

// The branch is forced back to an older commit, and then to an amended one.
func TestCases_A01_ForcedBack(t *testing.T) {
	start(t)
	settling(t, nil)
	r := repository(t, map[string]string{"a.yaml": reservationYAML("forced", "forced-1")})
	s := follow(t, r.URL, nil)
	first := r.head()
	awaitReady(t, s, first)
	_, second := r.commit("Two more", map[string]string{"a.yaml": reservationYAML("forced", "forced-1", "forced-2"), "b.yaml": reservationYAML("forced-b", "forced-3")})
	awaitReady(t, s, second)

	require.NoError(t, r.Git("reset", "--quiet", "--hard", "HEAD~1"))
	require.NoError(t, r.Git("push", "--quiet", "--force", "origin", "main"))
	require.NoError(t, r.Git("-C", r.URL, "gc", "--quiet", "--prune=now"))
	s = awaitReady(t, s, first)
	require.Len(t, s.Status.History, 3)
	require.Equal(t, first, s.Status.History[0].Revision)
	require.Equal(t, first, s.Status.History[2].Revision)
	require.False(t, get(t, &v1alpha1.Reservation{}, "forced-b"))

	require.NoError(t, r.Git("commit", "--quiet", "--amend", "--message", "Amended"))
	require.NoError(t, r.Git("push", "--quiet", "--force", "origin", "main"))
	s = awaitReady(t, s, r.head())
	require.Equal(t, "Amended", s.Status.History[0].Subject)
	require.Equal(t, int32(0), s.Status.History[0].Changed)
}

// Labels that people or tools put on objects stay labels: a change of them changes no spec.
func TestCases_A14_BookkeepingLabels(t *testing.T) {
	start(t)
	settling(t, nil)
	kustomization := func(rev string) string {
		return "resources: [r.yaml]\nlabels:\n- pairs: {app.kubernetes.io/managed-by: gitops, rev: \"" + rev + "\"}\n  includeSelectors: true\n"
	}
	r := repository(t, map[string]string{
		"kustomization.yaml": kustomization("42"),
		"r.yaml":             "apiVersion: scheduling.coreweave.cloud/v1alpha1\nkind: Reservation\nmetadata: {name: labelled}\nspec:\n  tenant: labelled\n  nodeSelector: {matchLabels: {pool: h200}}\n",
	})
	s := follow(t, r.URL, nil)
	awaitReady(t, s, r.head())
	before := &v1alpha1.Reservation{}
	require.True(t, get(t, before, "labelled"))
	require.Equal(t, "42", before.Labels["rev"])
	_, revision := r.commit("Another label", map[string]string{"kustomization.yaml": kustomization("43")})
	awaitReady(t, s, revision)
	after := &v1alpha1.Reservation{}
	require.True(t, get(t, after, "labelled"))
	require.Equal(t, "43", after.Labels["rev"])
	require.Equal(t, map[string]string{"pool": "h200"}, after.Spec.NodeSelector.MatchLabels)
	require.Equal(t, before.Generation, after.Generation)
}

func TestThousandReservations(t *testing.T) {
	k := start(t)
	files := map[string]string{}
	for i := range 1000 {
		name := fmt.Sprintf("thousand-%04d", i)
		files["tenants/"+name+".yaml"] = reservationYAML(name, name+"-a", name+"-b")
	}
	r := repository(t, files)
	s := follow(t, r.URL, nil)
	var names []string
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		latest := latest(c, s)
		require.Equal(c, r.head(), latest.Status.LastAppliedRevision, ready(latest).Message)
		require.Equal(c, int32(1000), latest.Status.History[0].Created)
		names = nil
		for _, e := range latest.Status.Inventory {
			names = append(names, e.Name)
		}
	}, 3*time.Minute, 100*time.Millisecond)
	require.Len(t, names, 1000)
	require.True(t, slices.IsSorted(names))
	applied := slices.DeleteFunc(k.written(), func(w string) bool { return !strings.HasPrefix(w, "apply ") })
	require.Len(t, applied, 1000, "each is written once")
}
