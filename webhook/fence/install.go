package fence

import (
	"context"
	"fmt"
	"maps"
	"reflect"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings;mutatingadmissionpolicies;mutatingadmissionpolicybindings,verbs=create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=get;update,resourceNames=reservation-fence-bindings;reservation-fence-pods;reservation-keep-out-check
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingadmissionpolicies;mutatingadmissionpolicybindings,verbs=get;update,resourceNames=reservation-keep-out
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get,resourceNames=*
// +kubebuilder:rbac:groups="",namespace=reservation-operator,resources=configmaps,verbs=get,resourceNames=reservation-index
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=create
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get,resourceNames=reservation-fence-probe
// +kubebuilder:rbac:groups="",namespace=reservation-fence-probe,resources=serviceaccounts,verbs=create
// +kubebuilder:rbac:groups="",namespace=reservation-fence-probe,resources=serviceaccounts,verbs=get,resourceNames=reservation-fence-probe

// Installer keeps the live fences equal to Policies, and the probe's namespace there. The index ConfigMap is not its
// business, but has to exist before: without it the fences deny every pod in every namespace that is not exempt.
//
// The API server lets only those who may read every object of a policy's parameter kind create the policy; it asks for
// "get" of the name "*", which no ConfigMap can have, so that is all that is granted here.
type Installer struct {
	// Client reads live, not through a cache: a cache would hold all service accounts for the sake of one, and a stale
	// read would repeat a write.
	Client client.Client
	// Settings say where the fences hold.
	Settings Settings
}

// Ensure makes the live fences those of Settings. What is missing is created, what differs is updated in place, and
// nothing is deleted; where all is as it should be it only reads. An error names the object; what came before it in the
// order of Policies is done, and calling again goes on. Labels and annotations that others add stay.
func (i *Installer) Ensure(ctx context.Context) error {
	objects := append(probeObjects(), Policies(i.Settings)...)
	for _, object := range objects {
		if err := ensure(ctx, i.Client, object.(client.Object)); err != nil {
			return fmt.Errorf("installing the fences: %T %s: %w", object, object.(client.Object).GetName(), err)
		}
	}
	return nil
}

// probeObjects are what the probe's pod needs to be looked at. Nothing runs there.
func probeObjects() []runtime.Object {
	namespace := &corev1.Namespace{ObjectMeta: meta(v1alpha1.ProbeNamespace)}
	account := &corev1.ServiceAccount{ObjectMeta: meta(probeServiceAccount)}
	account.Namespace = v1alpha1.ProbeNamespace
	return []runtime.Object{namespace, account}
}

// ensure replaces the whole spec by an update, where server-side apply would leave in place what somebody else added to
// a list that merges: one more match condition is enough to switch a policy off. An update that crosses with another
// writer's, such as the controller that writes the result of the type check after each change, is tried again.
func ensure(ctx context.Context, c client.Client, want client.Object) error {
	live := reflect.New(reflect.TypeOf(want).Elem()).Interface().(client.Object)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		err := c.Get(ctx, client.ObjectKeyFromObject(want), live)
		if apierrors.IsNotFound(err) {
			return c.Create(ctx, want, client.FieldOwner(v1alpha1.FieldManager))
		}
		if err != nil || !correct(live, want) {
			return err
		}
		return c.Update(ctx, live, client.FieldOwner(v1alpha1.FieldManager))
	})
}

// correct gives live the spec and labels of want and reports whether that changed anything. Of the probe's objects,
// which have no spec to speak of, only the existence counts.
func correct(live, want client.Object) bool {
	before := live.DeepCopyObject()
	switch want := want.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		live.(*admissionregistrationv1.ValidatingAdmissionPolicy).Spec = want.Spec
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		live.(*admissionregistrationv1.ValidatingAdmissionPolicyBinding).Spec = want.Spec
	case *admissionregistrationv1.MutatingAdmissionPolicy:
		live.(*admissionregistrationv1.MutatingAdmissionPolicy).Spec = want.Spec
	case *admissionregistrationv1.MutatingAdmissionPolicyBinding:
		live.(*admissionregistrationv1.MutatingAdmissionPolicyBinding).Spec = want.Spec
	default:
		return false
	}
	labels := maps.Clone(live.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, want.GetLabels())
	live.SetLabels(labels)
	return !equality.Semantic.DeepEqual(before, live)
}

// KeepOutServed reports whether the API server serves MutatingAdmissionPolicy in v1 (Kubernetes 1.36 and later). It
// asks the API server each time; once at the start is enough.
func KeepOutServed(d discovery.DiscoveryInterface) (bool, error) {
	resources, err := d.ServerResourcesForGroupVersion(admissionregistrationv1.SchemeGroupVersion.String())
	if err != nil {
		return false, fmt.Errorf("asking which admission policies are served: %w", err)
	}
	for _, resource := range resources.APIResources {
		if resource.Name == "mutatingadmissionpolicies" {
			return true, nil
		}
	}
	return false, nil
}

// Kinds returns an empty object of each kind of policy that Ensure writes, for whoever watches them.
func (i *Installer) Kinds() []client.Object {
	kinds := []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
	}
	if i.Settings.KeepOut {
		kinds = append(kinds, &admissionregistrationv1.MutatingAdmissionPolicy{}, &admissionregistrationv1.MutatingAdmissionPolicyBinding{})
	}
	return kinds
}
