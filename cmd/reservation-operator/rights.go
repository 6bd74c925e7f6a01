package main

import (
	"context"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
	"github.com/reservation-operator/reservation-operator/webhook/serve"
)

// right is one thing that the operator must be allowed to do. Without a namespace it is asked for the whole cluster,
// without a name for every object.
type right struct{ verb, group, resource, namespace, name string }

// needed returns the rights without which the operator cannot start: to watch what it decides from, and to keep its
// index, its certificate and its lease. What else it lacks is said on the object that it stands in the way of.
func needed(leaderElection bool) []right {
	const own = v1alpha1.OperatorNamespace
	var all []right
	add := func(group, resource, namespace, name string, verbs ...string) {
		for _, verb := range verbs {
			all = append(all, right{verb, group, resource, namespace, name})
		}
	}
	add(corev1.GroupName, "nodes", "", "", "list", "watch")
	for _, resource := range []string{"reservations", "reservationbindings", "reservationsources"} {
		add(v1alpha1.Group, resource, "", "", "list", "watch")
	}
	for _, resource := range []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings",
		"mutatingadmissionpolicies", "mutatingadmissionpolicybindings"} {
		add(admissionregistrationv1.GroupName, resource, "", "", "list", "watch")
	}
	add(admissionregistrationv1.GroupName, "validatingwebhookconfigurations", "", serve.ValidatingName, "get", "list", "watch")
	add(admissionregistrationv1.GroupName, "mutatingwebhookconfigurations", "", serve.MutatingName, "get", "list", "watch")
	add(corev1.GroupName, "configmaps", own, "", "create", "list", "watch")
	add(corev1.GroupName, "configmaps", own, v1alpha1.IndexName, "get", "update")
	add(corev1.GroupName, "secrets", own, "", "create", "list", "watch")
	add(corev1.GroupName, "secrets", own, serve.SecretName, "get", "update")
	if leaderElection {
		add(coordinationv1.GroupName, "leases", own, "", "create")
		add(coordinationv1.GroupName, "leases", own, leaderElectionID, "get", "update")
	}
	return all
}

// missingRights asks the API server for each right and returns those that it does not give, in the same order.
func missingRights(ctx context.Context, c kubernetes.Interface, rights []right) ([]right, error) {
	var missing []right
	for _, r := range rights {
		review, err := c.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: r.verb, Group: r.group, Resource: r.resource, Namespace: r.namespace, Name: r.name,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("asking the API server what the operator may do: %w", err)
		}
		if !review.Status.Allowed {
			missing = append(missing, r)
		}
	}
	return missing, nil
}

// rightsMessage says which rights a user lacks, how to ask for the first of them, and what to do.
func rightsMessage(missing []right, user string) string {
	words := make([]string, 0, len(missing))
	for _, r := range missing {
		words = append(words, r.String())
	}
	return fmt.Sprintf("the operator cannot start: it may not %s. Check with: kubectl auth can-i %s --as=%s; give the operator the roles of config/rbac",
		strings.Join(words, ", "), words[0], user)
}

// String is the right as kubectl auth can-i takes it.
func (r right) String() string {
	s := r.verb + " " + r.resource
	if r.group != corev1.GroupName {
		s += "." + r.group
	}
	if r.name != "" {
		s += "/" + r.name
	}
	if r.namespace != "" {
		s += " --namespace=" + r.namespace
	}
	return s
}
