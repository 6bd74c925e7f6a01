package controlplane_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

func TestRestartsKeepAddressAndData(t *testing.T) {
	configMaps := client(t).CoreV1().ConfigMaps(metav1.NamespaceDefault)
	before, err := configMaps.Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "kept-"}}, metav1.CreateOptions{})
	require.NoError(t, err)

	for name, end := range map[string]func(string) error{
		"stopped": plane.StopComponent, "killed": plane.KillComponent,
	} {
		for _, component := range []string{controlplane.APIServer, controlplane.Etcd} {
			t.Run(component+" "+name, func(t *testing.T) {
				require.NoError(t, end(component))
				require.NoError(t, end(component), "ending it twice")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second) // without etcd the API server tries for long
				defer cancel()
				_, err := configMaps.Get(ctx, before.Name, metav1.GetOptions{})
				require.Error(t, err)

				require.NoError(t, plane.StartComponent(component))
				require.ErrorContains(t, plane.StartComponent(component), "runs already")
				eventually(t, func(c *assert.CollectT) { // after etcd's absence the API server needs a moment
					after, err := configMaps.Get(t.Context(), before.Name, metav1.GetOptions{})
					require.NoError(c, err)
					assert.Equal(c, before.UID, after.UID)
				})
			})
		}
	}
}

func TestUnknownComponentIsAnError(t *testing.T) {
	require.ErrorContains(t, plane.StopComponent("kubelet"), "kubelet")
	require.ErrorContains(t, plane.StartComponent("kubelet"), "kubelet")
}

func TestFailedStartCarriesTheLog(t *testing.T) {
	dir := t.TempDir()
	_, err := controlplane.Start(t.Context(), controlplane.Options{
		Dir: dir, APIServerArgs: map[string]string{"no-such-flag": "1"},
	})
	require.ErrorContains(t, err, "starting kube-apiserver")
	require.ErrorContains(t, err, "unknown flag: --no-such-flag")
	require.FileExists(t, filepath.Join(dir, "kube-apiserver.log"))
}

func TestSecondControlPlaneInTheSameFolderFindsTheData(t *testing.T) {
	options := controlplane.Options{Dir: t.TempDir(), Progress: os.Stderr}
	for _, want := range []string{"configmap/left created", "configmaps \"left\" already exists"} {
		second, err := controlplane.Start(t.Context(), options)
		require.NoError(t, err)
		out, _ := second.Kubectl(t.Context(), "create", "configmap", "left")
		require.NoError(t, second.Stop())
		require.Contains(t, out, want)
	}
}
