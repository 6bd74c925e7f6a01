package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/reservation-operator/reservation-operator/webhook/serve"
)

func parse(t *testing.T, args ...string) Options {
	t.Helper()
	var o Options
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	o.BindFlags(fs)
	require.NoError(t, fs.Parse(args))
	return o
}

func TestDefaultsAreValid(t *testing.T) {
	o := parse(t)
	require.NoError(t, o.Validate())
	require.Equal(t, serve.Endpoint{ServiceNamespace: "reservation-operator", ServiceName: "reservation-webhook"}, o.endpoint())
}

func TestEveryMistakeIsNamedWithItsFlag(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"an exempt one that cannot be":    {[]string{"--exempt-namespaces=ok,-no"}, []string{"--exempt-namespaces", "-no"}},
		"a label key with a space":        {[]string{"--exempt-label=a b"}, []string{"--exempt-label", "a b"}},
		"a webhook URL without TLS":       {[]string{"--webhook-url=http://localhost:9443"}, []string{"--webhook-url", "http://localhost:9443"}},
		"a port that is none":             {[]string{"--webhook-port=70000"}, []string{"--webhook-port", "70000"}},
		"a period that never passes":      {[]string{"--sync-period=0s"}, []string{"--sync-period"}},
		"a level that is none":            {[]string{"--log-level=banana"}, []string{"--log-level", "banana"}},
		"an encoding that is none":        {[]string{"--log-encoding=xml"}, []string{"--log-encoding", "xml"}},
		"nobody to do the work":           {[]string{"--node-concurrency=0"}, []string{"--node-concurrency"}},
		"two mistakes, both of them told": {[]string{"--webhook-port=0", "--source-concurrency=0"}, []string{"--webhook-port", "--source-concurrency"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := parse(t, test.args...)
			err := o.Validate()
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestAMissingKubeconfigIsNamed(t *testing.T) {
	o := parse(t, "--kubeconfig=/does/not/exist")
	_, err := o.Client.Config()
	require.ErrorContains(t, err, "--kubeconfig")
	require.ErrorContains(t, err, "/does/not/exist")

	t.Setenv("KUBECONFIG", "/neither/does/this")
	o = parse(t)
	_, err = o.Client.Config()
	require.ErrorContains(t, err, "KUBECONFIG names no file that exists: /neither/does/this")

	broken := filepath.Join(t.TempDir(), "broken")
	require.NoError(t, os.WriteFile(broken, []byte("{"), 0o600))
	t.Setenv("KUBECONFIG", broken)
	_, err = o.Client.Config()
	require.ErrorContains(t, err, "KUBECONFIG: ")
	require.ErrorContains(t, err, broken)
}
