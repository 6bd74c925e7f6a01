package controlplane_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// whoAmI is the user that the API server takes a client for.
func whoAmI(t *testing.T, config *rest.Config) authenticationv1.UserInfo {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	review, err := client.AuthenticationV1().SelfSubjectReviews().
		Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return review.Status.UserInfo
}

func TestAsUserActsAsThatUserOnly(t *testing.T) {
	config := plane.AsUser("alice", "tenant-foo")
	user := whoAmI(t, config)
	require.Equal(t, "alice", user.Username)
	require.ElementsMatch(t, []string{"tenant-foo", "system:authenticated"}, user.Groups)

	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsForbidden(err), "got %v", err)
	require.Contains(t, whoAmI(t, plane.Config).Groups, "system:masters", "Config must stay the administrator's")
}

func TestAsServiceAccountGivesAConfigAndAFile(t *testing.T) {
	const want = "system:serviceaccount:default:default"
	config, path, err := plane.AsServiceAccount(t.Context(), "default", "default")
	require.NoError(t, err)
	require.Equal(t, want, whoAmI(t, config).Username)

	fromFile, err := clientcmd.BuildConfigFromFlags("", path)
	require.NoError(t, err)
	require.Equal(t, want, whoAmI(t, fromFile).Username)
}

func TestAsServiceAccountNeedsTheAccount(t *testing.T) {
	_, _, err := plane.AsServiceAccount(t.Context(), "default", "absent")
	require.True(t, apierrors.IsNotFound(err), "got %v", err)
}

func TestKubeconfigIsTheAdministrators(t *testing.T) {
	config, err := clientcmd.BuildConfigFromFlags("", plane.Kubeconfig)
	require.NoError(t, err)
	require.Contains(t, whoAmI(t, config).Groups, "system:masters")
}
