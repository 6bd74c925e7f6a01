package node

import "github.com/reservation-operator/reservation-operator/reconciler/allocate"

// Changed is where the Watcher puts the nodes whose pods changed.
func (w *Watcher) Changed() *allocate.Wake { return &w.changed }
