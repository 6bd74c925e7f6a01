package report

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

func TestNodeEvents(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpu-04"}}
	cases := map[string]string{
		v1alpha1.ReasonReleaseStarted: "Node gpu-04 is being released: it is cordoned",
		v1alpha1.ReasonReleaseAborted: "Node gpu-04 was claimed again",
		v1alpha1.ReasonNodeReleased:   "Node gpu-04 was released",
	}
	for reason, want := range cases {
		t.Run(reason, func(t *testing.T) {
			recorder := events.NewFakeRecorder(10)
			for _, e := range NodeEvents(reason, node, &v1alpha1.Reservation{}) {
				e.Emit(recorder)
			}
			require.Len(t, recorder.Events, 2, "one on the node, one on the Reservation")
			for range 2 {
				said := <-recorder.Events
				require.True(t, strings.HasPrefix(said, "Normal "+reason+" "+want), said)
				require.NotContains(t, said, "%")
			}
			for _, e := range NodeEvents(reason, node, nil) {
				e.Emit(recorder)
			}
			require.Len(t, recorder.Events, 1, "a Reservation that is gone gets none")
		})
	}
}

func TestNodePatchForbiddenSaysHowToCheck(t *testing.T) {
	said := NodePatchForbidden("gpu-04", errors.New("no"))
	require.Contains(t, said, "node gpu-04 cannot be changed: no")
	require.Contains(t, said, "kubectl auth can-i patch nodes --as=system:serviceaccount:reservation-operator:reservation-operator")
}
