package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// shrink leaves out of a violation's history all that it does not need (delta debugging), and returns what is left with
// its story.
func shrink(v Violation, mutate func(*parts)) (Violation, []string) {
	list := v.Actions
	breaks := func(list []Action) bool {
		found, _ := history(v.History, list, mutate, nil)
		if found == nil || found.Law != v.Law {
			return false
		}
		v = *found
		return true
	}
	for size := (len(list) + 1) / 2; size > 0; {
		shrunk := false
		for at := 0; at < len(list); {
			shorter := slices.Concat(list[:at], list[min(at+size, len(list)):])
			if breaks(shorter) {
				list, shrunk = v.Actions, true
				continue
			}
			at += size
		}
		switch {
		case size > 4:
			size = (size + 1) / 2
		case size > 1:
			size--
		case shrunk:
			size = 4 // by now, two that only make sense together may have become needless
		default:
			size = 0
		}
	}
	var story []string
	if found, _ := history(v.History, list, mutate, &story); found != nil {
		v = *found
	}
	return v, story
}

// Replay returns a history as one word, which ParseReplay reads.
func (v *Violation) Replay() string {
	words := make([]string, 0, len(v.Actions)+1)
	words = append(words, fmt.Sprintf("%x", v.History))
	for _, a := range v.Actions {
		words = append(words, strings.ReplaceAll(a.Do, " ", "_")+":"+strconv.FormatUint(a.Seed, 36))
	}
	return strings.Join(words, ",")
}

// ParseReplay reads what Replay wrote. A seed alone is the whole history of that seed.
func ParseReplay(text string) (seed uint64, list []Action, err error) {
	words := strings.Split(text, ",")
	if seed, err = strconv.ParseUint(words[0], 16, 64); err != nil {
		return 0, nil, fmt.Errorf("reading the seed of a history: %w", err)
	}
	if len(words) == 1 {
		return seed, actions(seed, shortest+int(seed%(longest-shortest+1))), nil
	}
	for _, word := range words[1:] {
		do, number, _ := strings.Cut(word, ":")
		do = strings.ReplaceAll(do, "_", " ")
		if _, known := actsByName[do]; !known {
			return 0, nil, fmt.Errorf("reading a history: no action is called %q", do)
		}
		n, err := strconv.ParseUint(number, 36, 64)
		if err != nil {
			return 0, nil, fmt.Errorf("reading the seed of action %s: %w", do, err)
		}
		list = append(list, Action{Do: do, Seed: n})
	}
	return seed, list, nil
}

// Replay plays a history again and returns what broke, or nil, and the story.
func Replay(seed uint64, list []Action) (*Violation, []string) {
	var story []string
	v, _ := history(seed, list, nil, &story)
	return v, story
}
