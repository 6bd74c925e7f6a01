package node

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/reservation-operator/reservation-operator/reconciler/requeue"
)

// Watcher is the PodWatcher of a real cluster: an informer per node that waits, over the pods of that node alone
// (spec.nodeName). Add it to the manager, once; it ends every watch when its context does.
type Watcher struct {
	client  kubernetes.Interface
	changed requeue.Wake

	mu      sync.Mutex
	ctx     context.Context
	watches map[string]context.CancelFunc
}

// NewWatcher returns a Watcher that reads with the given client.
func NewWatcher(client kubernetes.Interface) *Watcher {
	return &Watcher{client: client, watches: map[string]context.CancelFunc{}}
}

// Start runs until the context ends. Watches that were asked for before are begun then.
func (w *Watcher) Start(ctx context.Context) error {
	w.mu.Lock()
	w.ctx = ctx
	for node := range w.watches {
		w.begin(node)
	}
	w.mu.Unlock()
	<-ctx.Done()
	return nil
}

// Watch implements PodWatcher.
func (w *Watcher) Watch(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, watched := w.watches[node]; watched {
		return
	}
	w.watches[node] = func() {}
	if w.ctx != nil {
		w.begin(node)
	}
}

// Forget implements PodWatcher.
func (w *Watcher) Forget(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if end, watched := w.watches[node]; watched {
		end()
		delete(w.watches, node)
	}
}

// begin starts the informer of one node. Its first list asks for a look too: a pod may have ended before it.
func (w *Watcher) begin(node string) {
	ctx, end := context.WithCancel(w.ctx)
	w.watches[node] = end
	onlyNode := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", node).String()
	}
	look := func() { w.changed.Add(node) }
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: cache.NewFilteredListWatchFromClient(w.client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, onlyNode),
		ObjectType:    &corev1.Pod{},
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { look() }, DeleteFunc: func(any) { look() },
			UpdateFunc: func(before, after any) {
				if before, after := before.(*corev1.Pod), after.(*corev1.Pod); before.Status.Phase != after.Status.Phase ||
					before.UID != after.UID || !before.DeletionTimestamp.Equal(after.DeletionTimestamp) {
					look()
				}
			},
		},
		Transform: onlyLife,
	})
	go informer.RunWithContext(ctx)
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			look()
		}
	}()
}

// onlyLife keeps of a pod what says whether it still occupies its node; the rest is read when it is needed.
func onlyLife(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			DeletionTimestamp: pod.DeletionTimestamp,
		},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}, nil
}
