package node

import "github.com/reservation-operator/reservation-operator/reconciler/requeue"

// Changed is where the Watcher puts the nodes whose pods changed.
func (w *Watcher) Changed() *requeue.Wake { return &w.changed }
