// Package inject decides what is added to a pod when it is created in a namespace that has ReservationBindings, and
// answers the API server's admission requests with it.
//
// In come the pod as the API server sent it and the namespace's accepted bindings; out goes a JSON patch that only
// adds, below /spec/affinity and /spec/tolerations, so that fields which this program does not know survive; or a
// refusal that says what to change. Three things can happen to a pod (DESIGN.md, Admission):
//
//   - a binding selects it: it gets the tenant's node affinity and toleration;
//   - none does, but it tolerates the taint of reserved nodes: it is kept off all of them, since the scheduler would
//     otherwise go on choosing nodes that the API server's fence then refuses, or preempt a tenant's pods there;
//   - neither: it is left alone.
//
// It never removes or replaces anything, never widens where a pod may run, touches pods on CREATE only, calls no API
// in the path of a request, and gives the same answer to a dry run. Applied to its own result it adds nothing.
//
//	patch, err := inject.Pod(request.Object.Raw, bindings)
package inject
