package check

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	kjson "sigs.k8s.io/json"

	"github.com/reservation-operator/reservation-operator/source/render"
)

func schemas(f *facts) []render.Finding { return f.unreadable }

// read converts an object of ours into its type and keeps what does not fit as findings. The kinds of Kubernetes are
// left to the API server's dry run: a newer one may know fields that this code does not.
func read[T any](f *facts, o render.Object) located[*T] {
	out := located[*T]{value: new(T), object: o}
	data, err := json.Marshal(o.Object)
	if err != nil {
		f.unreadable = append(f.unreadable, at(o, "", fmt.Sprintf("cannot be read: %v", err)))
		return out
	}
	strict, err := kjson.UnmarshalStrict(data, out.value)
	for _, problem := range strict {
		field := ""
		var fieldError kjson.FieldError
		if errors.As(problem, &fieldError) {
			field = fieldError.FieldPath()
		}
		f.unreadable = append(f.unreadable, at(o, field, "there is no such field; check its spelling and indentation"))
	}
	if err != nil {
		f.unreadable = append(f.unreadable, misfit(o, err))
	}
	out.readable = len(strict) == 0 && err == nil
	return out
}

// misfit returns the finding for a value of the wrong type.
func misfit(o render.Object, err error) render.Finding {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return at(o, "spec", fmt.Sprintf("has a value that cannot be read: %v", err))
	}
	return at(o, wrong.Field, fmt.Sprintf("must be %s, not %s", typeName(wrong.Type.String()), valueName(wrong.Value)))
}

// typeName says what a Go type is in YAML.
func typeName(goType string) string {
	goType = strings.TrimPrefix(goType, "*")
	switch {
	case goType == "string" || strings.HasPrefix(goType, "v1.Taint") || strings.HasSuffix(goType, "Scope"):
		return "a string (quote it)"
	case goType == "bool":
		return "true or false"
	case strings.HasPrefix(goType, "int"):
		return "a whole number"
	case goType == "[]string":
		return "a list of strings"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	default:
		return "a map"
	}
}

// valueName says what encoding/json calls a value in YAML's words.
func valueName(jsonType string) string {
	switch {
	case jsonType == "object":
		return "a map"
	case jsonType == "array":
		return "a list"
	case strings.HasPrefix(jsonType, "number"):
		return "a number"
	case jsonType == "bool":
		return "true or false"
	default:
		return "a " + jsonType
	}
}
