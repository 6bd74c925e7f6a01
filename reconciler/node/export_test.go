package node

import "github.com/reservation-operator/reservation-operator/reconciler/requeue"

// Recheck is after how long a node that waits is looked at although nothing told of a change.
const Recheck = recheck

// LockChanged passes the changes of a Node that wake the reconciler.
var LockChanged = lockChanged

// Changed is where the Watcher puts the nodes whose pods changed.
func (w *Watcher) Changed() *requeue.Wake { return &w.changed }
