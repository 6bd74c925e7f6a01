package sim

import (
	"maps"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cache is what one replica knows of one kind: what was stored when its watch came so far, and no later. It calls
// changed for each event that it handles; before or after is nil for what comes or goes.
type cache struct {
	kind    kind
	server  *server
	objects map[string]client.Object
	at      int
	changed func(before, after client.Object)
}

func (c *cache) names() []string { return slices.Sorted(maps.Keys(c.objects)) }

// behind returns how many changes the cache does not know.
func (c *cache) behind() int { return len(c.server.logs[c.kind]) - c.at }

// advance takes the next n changes, one by one.
func (c *cache) advance(n int) {
	for _, change := range c.server.log(c.kind, c.at)[:min(n, c.behind())] {
		c.at++
		c.set(change.name, change.object)
	}
}

// merge takes the next n changes as one of each object: what a watch does that falls behind.
func (c *cache) merge(n int) {
	changes := c.server.log(c.kind, c.at)[:min(n, c.behind())]
	last := map[string]client.Object{}
	for _, change := range changes {
		last[change.name] = change.object
	}
	c.at += len(changes)
	for _, name := range slices.Sorted(maps.Keys(last)) {
		c.set(name, last[name])
	}
}

// relist is what happens when events were lost: everything is read anew, and what was missed shows as one change.
func (c *cache) relist() {
	c.at = len(c.server.logs[c.kind])
	now := c.server.objects[c.kind]
	for _, name := range c.names() {
		if now[name] == nil {
			c.set(name, nil)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		c.set(name, now[name])
	}
}

// repeat handles every object once more, unchanged: a resync.
func (c *cache) repeat() {
	for _, name := range c.names() {
		c.changed(c.objects[name], c.objects[name])
	}
}

func (c *cache) set(name string, object client.Object) {
	before := c.objects[name]
	if object == nil {
		delete(c.objects, name)
	} else {
		c.objects[name] = object
	}
	if before == nil && object == nil || before == object {
		return
	}
	c.changed(before, object)
}
