package commit

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/test/controlplane"
)

// plane is the API server of all tests here, with our CRDs; admin acts on it without a cache.
var (
	plane  *controlplane.ControlPlane
	admin  client.Client
	scheme = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	logf.SetLogger(logr.Discard())
	log.SetOutput(io.Discard) // the Git server's
	controlplane.Main(m, controlplane.Options{}, func(c *controlplane.ControlPlane) {
		plane = c
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	})
}

func prepare() (err error) {
	ctx := context.Background()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	if admin, err = client.New(plane.Config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if err := plane.Apply(ctx, "../../config/crd"); err != nil {
		return err
	}
	return admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.OperatorNamespace}})
}
