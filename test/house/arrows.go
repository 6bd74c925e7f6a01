package house

import (
	"fmt"
	"slices"
	"strings"
)

// arrow says which rooms a room may import. A room stands for all packages in it.
type arrow struct {
	room string
	may  []string
}

// arrows are looked up by the longest room that fits. Whatever is not here may import nothing of this module.
//
// Git -> source -> objects -> reconciler -> cluster; webhook guards the API's door; cmd wires.
var arrows = []arrow{
	{"api", nil},
	{"source", []string{"api", "source"}},
	{"reconciler", []string{"api", "reconciler"}},
	// What source hands over are rendered objects and findings; only commit knows how they come about.
	{"reconciler/apply", []string{"api", "reconciler", "source/render", "source/check"}},
	{"reconciler/commit", []string{"api", "reconciler", "source"}},
	// The webhooks decide by the same rules as the reconcilers, and start nothing of theirs.
	{"webhook", []string{"api", "webhook", "reconciler/allocate", "reconciler/binding", "source/check", "source/render"}},
	{"cmd", []string{"api", "source", "reconciler", "webhook", "cmd"}},
	{"test", []string{"api", "source", "reconciler", "webhook", "test"}},
}

// Arrows returns a sentence for each import that the house does not allow, in the order of the packages.
func Arrows(packages []Package) []string {
	var problems []string
	for _, p := range packages {
		room, ours := Room(p.ImportPath)
		if !ours {
			continue
		}
		allowed := allowedFrom(room)
		for _, imported := range p.Imports {
			target, ours := Room(imported)
			if ours && !slices.ContainsFunc(allowed, func(r string) bool { return within(target, r) }) {
				problems = append(problems, fmt.Sprintf("%s imports %s; it may import %s", room, target, list(allowed)))
			}
		}
	}
	return problems
}

func allowedFrom(room string) []string {
	var best arrow
	for _, a := range arrows {
		if within(room, a.room) && len(a.room) > len(best.room) {
			best = a
		}
	}
	return best.may
}

// within reports whether a package's path is the room's or lies in it.
func within(path, room string) bool {
	return path == room || strings.HasPrefix(path, room+"/")
}

func list(words []string) string {
	if len(words) == 0 {
		return "nothing of this module"
	}
	return strings.Join(words, ", ")
}
