package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/reservation-operator/reservation-operator/api/v1alpha1"
)

// operatorUser is the operator's user name at the API server.
const operatorUser = "system:serviceaccount:" + v1alpha1.OperatorNamespace + ":reservation-operator"

// policy has the API server record the operator's writes and nothing else.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ["` + operatorUser + `"]
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

// Write is one write of the operator's that the API server accepted.
type Write struct {
	// Verb is create, update, patch or delete.
	Verb string
	// Resource is the plural name, with the subresource: "nodes", "reservations/status".
	Resource string
	// Namespace and Name are the object's.
	Namespace, Name string
}

func prepareAudit() (string, error) {
	dir, err := os.MkdirTemp("", "audit-")
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "policy.yaml"), []byte(policy), 0o600); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

func auditArgs(dir string) map[string]string {
	return map[string]string{
		"audit-policy-file": filepath.Join(dir, "policy.yaml"),
		"audit-log-path":    filepath.Join(dir, "audit.log"),
		"audit-log-mode":    "blocking",
	}
}

// Writes returns what the operator has written since the cluster started, in order, without dry runs, refused
// requests, leases and questions such as access reviews. It needs Options.Audit.
func (c *Cluster) Writes() ([]Write, error) {
	file, err := os.Open(filepath.Join(c.audit, "audit.log"))
	if os.IsNotExist(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	var writes []Write
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event struct {
			Verb, RequestURI string
			ObjectRef        struct{ Resource, Subresource, Namespace, Name string }
			ResponseStatus   struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, fmt.Errorf("reading the audit log: %w", err)
		}
		resource := event.ObjectRef.Resource
		if event.ResponseStatus.Code >= 300 || strings.Contains(event.RequestURI, "dryRun=All") ||
			resource == "leases" || strings.HasSuffix(resource, "reviews") {
			continue
		}
		if event.ObjectRef.Subresource != "" {
			resource += "/" + event.ObjectRef.Subresource
		}
		writes = append(writes, Write{event.Verb, resource, event.ObjectRef.Namespace, event.ObjectRef.Name})
	}
	return writes, lines.Err()
}
