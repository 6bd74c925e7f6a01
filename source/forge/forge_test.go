package forge

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSilent(t *testing.T) {
	var reporter Reporter = Silent{}
	require.NoError(t, reporter.Report(t.Context(), nil, "main@sha1:0", Failure, "no"))
}
