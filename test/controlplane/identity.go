package controlplane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
)

const mastersGroup = "system:masters"

// identities are who the components and the administrator are to the API server, by the name of their kubeconfig file.
// kwok stands for all kubelets at once and for what they delete, so it may do everything.
var identities = map[string]struct{ user, group string }{
	"admin":           {"kubernetes-admin", mastersGroup},
	Scheduler:         {"system:kube-scheduler", ""},
	ControllerManager: {"system:kube-controller-manager", ""},
	Kwok:              {"kwok", mastersGroup},
}

// writeIdentities writes a kubeconfig file with a client certificate for each identity and sets Config and Kubeconfig.
func (c *ControlPlane) writeIdentities() error {
	for name, identity := range identities {
		var groups []string
		if identity.group != "" {
			groups = append(groups, identity.group)
		}
		certificate, err := c.authority.client(identity.user, groups...)
		if err != nil {
			return err
		}
		config := c.anonymous()
		config.CertData, config.KeyData = certificate.certificate, certificate.key
		path := filepath.Join(c.Dir, name+".kubeconfig")
		if err := writeKubeconfig(config, "default", path); err != nil {
			return err
		}
		if name == "admin" {
			c.Config, c.Kubeconfig = config, path
		}
	}
	return nil
}

// anonymous is a client configuration without credentials.
func (c *ControlPlane) anonymous() *rest.Config {
	return &rest.Config{
		Host:            "https://" + loopback(c.ports.apiServer()),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.authority.pem()},
		QPS:             -1, // the API server's own fairness is limit enough
	}
}

// AsUser is a client configuration that acts as this user in these groups (and system:authenticated), by impersonation:
// authorization, admission and audit see the user, not the administrator behind it.
func (c *ControlPlane) AsUser(user string, groups ...string) *rest.Config {
	config := rest.CopyConfig(c.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	return config
}

// AsServiceAccount asks for a token of a service account, valid for a day, and returns a client configuration with it
// and the path of a kubeconfig file that has the account's namespace as its default. The account must exist.
func (c *ControlPlane) AsServiceAccount(ctx context.Context, namespace, name string) (*rest.Config, string, error) {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return nil, "", err
	}
	token, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(24 * time.Hour / time.Second))},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("requesting a token of service account %s/%s: %w", namespace, name, err)
	}
	config := c.anonymous()
	config.BearerToken = token.Status.Token
	path := filepath.Join(c.Dir, fmt.Sprintf("serviceaccount-%s-%s.kubeconfig", namespace, name))
	return config, path, writeKubeconfig(config, namespace, path)
}

func writeKubeconfig(config *rest.Config, namespace, path string) error {
	const name = "controlplane"
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			name: {Server: config.Host, CertificateAuthorityData: config.CAData},
		},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			name: {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken},
		},
		Contexts: map[string]*clientcmdapi.Context{
			name: {Cluster: name, AuthInfo: name, Namespace: namespace},
		},
		CurrentContext: name,
	}, path)
	return errors.Join(err, os.Chmod(path, 0o600))
}

// awaitDefaultServiceAccount waits for what the controller manager makes and every pod in default needs.
func (c *ControlPlane) awaitDefaultServiceAccount(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(c.Config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		_, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the default service account: %w", err)
		case <-time.After(healthInterval):
		}
	}
}
