package allocate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
)

func TestIndexData(t *testing.T) {
	x := Index{Version: 7, Bound: []string{"tenant-bar", "tenant-foo"}, Grants: map[string]Grant{
		"gpu-02": {Reservation: "foo", Namespaces: []string{"tenant-foo", "tenant-foo-ci"}},
		"gpu-01": {Reservation: "foo", Namespaces: []string{"tenant-foo"}},
		"gpu-04": {Reservation: "foo", Phase: Releasing},
		"gpu-05": {Reservation: Orphan, Phase: Releasing},
		"gpu-06": {Reservation: "bar", Phase: Freed},
		"gpu-07": {Reservation: "bar"},
	}}
	require.Equal(t, map[string]string{
		KeyNodes:   "|reservation-fence-probe |gpu-01 tenant-foo|gpu-02 tenant-foo|gpu-02 tenant-foo-ci|gpu-04 |gpu-05 |gpu-06 |gpu-07 |",
		KeyGrants:  "gpu-01 foo\ngpu-02 foo\ngpu-04 foo releasing\ngpu-05 - releasing\ngpu-06 bar freed\ngpu-07 bar\n",
		KeyBound:   "|tenant-bar|tenant-foo|",
		KeyVersion: "7",
	}, x.Data())
	require.Equal(t, map[string]string{
		KeyNodes: "|reservation-fence-probe |", KeyGrants: "", KeyBound: "|", KeyVersion: "0",
	}, Index{}.Data(), "the zero Index is closed to the probe and to nobody else")
}

func TestParse(t *testing.T) {
	cases := map[string]struct {
		data      map[string]string
		want      Index
		wantError string
	}{
		"nothing is the zero Index": {nil, Index{}, ""},
		"a whole index": {
			map[string]string{
				KeyNodes:  "|reservation-fence-probe |a one|a two|b |c |d one|",
				KeyGrants: "a r1\nb r1 releasing\nc r2 freed\nd r2\n", KeyBound: "|one|", KeyVersion: "3",
			},
			Index{Version: 3, Bound: []string{"one"}, Grants: map[string]Grant{
				"a": {Reservation: "r1", Namespaces: []string{"one", "two"}}, "b": {Reservation: "r1", Phase: Releasing},
				"c": {Reservation: "r2", Phase: Freed}, "d": {Reservation: "r2", Namespaces: []string{"one"}},
			}}, "",
		},
		"blank lines and other spaces":                    {map[string]string{KeyGrants: "\na\tr1  releasing \n\n"}, Index{Grants: map[string]Grant{"a": {Reservation: "r1", Phase: Releasing}}}, ""},
		"a Reservation that is called like a phase":       {map[string]string{KeyGrants: "a releasing\nb freed freed"}, Index{Grants: map[string]Grant{"a": {Reservation: "releasing"}, "b": {Reservation: "freed", Phase: Freed}}}, ""},
		"a node that accepts somebody and is nobody's":    {map[string]string{KeyNodes: "|a one|"}, Index{}, ""},
		"a releasing node that somebody opened is closed": {map[string]string{KeyNodes: "|a one|", KeyGrants: "a r releasing"}, Index{Grants: map[string]Grant{"a": {Reservation: "r", Phase: Releasing}}}, ""},
		"a phase that there is not":                       {map[string]string{KeyGrants: "a r1\nb r1 held"}, Index{}, `index: grants, line 2: want "NODE RESERVATION [releasing|freed]", got "b r1 held"`},
		"a line too short":                                {map[string]string{KeyGrants: "a"}, Index{}, `line 1`},
		"a line too long":                                 {map[string]string{KeyGrants: "a r1 releasing now"}, Index{}, `line 1`},
		"a node twice":                                    {map[string]string{KeyGrants: "a r1\na r2"}, Index{}, `line 2: node a has a line already`},
		"a node that would break the fence's parameter":   {map[string]string{KeyGrants: "a|b r1"}, Index{}, `line 1`},
		"a version that is no number":                     {map[string]string{KeyVersion: "new"}, Index{}, `index: version: "new" is not a number`},
		"a version below nought":                          {map[string]string{KeyVersion: "-1"}, Index{}, `"-1"`},
		"a version that cannot be counted up":             {map[string]string{KeyVersion: "9223372036854775807"}, Index{}, `"9223372036854775807"`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.data)
			if c.wantError != "" {
				require.ErrorContains(t, err, c.wantError)
				require.Zero(t, got)
				return
			}
			require.NoError(t, err)
			require.Empty(t, cmp.Diff(c.want, got, cmpopts.EquateEmpty()))
		})
	}
}

func TestIndexEqual(t *testing.T) {
	x := Index{Version: 1, Grants: map[string]Grant{"a": {Reservation: "r", Namespaces: []string{"n"}}}}
	require.True(t, x.Equal(Index{Version: 2, Grants: map[string]Grant{"a": {Reservation: "r", Namespaces: []string{"n"}}}}))
	for name, y := range map[string]Index{
		"node":        {Grants: map[string]Grant{"b": {Reservation: "r", Namespaces: []string{"n"}}}},
		"reservation": {Grants: map[string]Grant{"a": {Reservation: "s", Namespaces: []string{"n"}}}},
		"phase":       {Grants: map[string]Grant{"a": {Reservation: "r", Namespaces: []string{"n"}, Phase: Freed}}},
		"namespaces":  {Grants: map[string]Grant{"a": {Reservation: "r", Namespaces: []string{"m"}}}},
		"bound":       {Grants: x.Grants, Bound: []string{"n"}},
	} {
		require.False(t, x.Equal(y), name)
	}
}

func TestGrantBytesIsItsShareOfData(t *testing.T) {
	size := func(x Index) (n int) {
		for _, value := range x.Data() {
			n += len(value)
		}
		return n
	}
	empty := size(Index{})
	for _, grant := range []Grant{
		{Reservation: "r"}, {Reservation: "r", Namespaces: []string{"tenant-foo"}},
		{Reservation: "tenant-foo-reservation", Namespaces: []string{"a", "bb", "ccc"}},
		{Reservation: "r", Phase: Releasing}, {Reservation: Orphan, Phase: Releasing}, {Reservation: "r", Phase: Freed},
	} {
		require.Equal(t, size(Index{Grants: map[string]Grant{"gpu-01": grant}})-empty, grant.bytes("gpu-01"), "%+v", grant)
	}
}

// What Parse takes from anybody, Data gives back so that Parse takes it again, and the fence's parameter keeps its
// shape: a pair per node and namespace, and none for a node without a grant.
func FuzzParse(f *testing.F) {
	f.Add("|a one|b |", "a r1\nb r1 releasing\n", "|one|", "3")
	f.Add("|a |a|b", "a - releasing\n\n b\tr2 freed", "one||two", "")
	f.Add("a  b|c\n", "x y z", "|", "-1")
	f.Fuzz(func(t *testing.T, nodes, grants, bound, version string) {
		x, err := Parse(map[string]string{KeyNodes: nodes, KeyGrants: grants, KeyBound: bound, KeyVersion: version})
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		data := x.Data()
		y, err := Parse(data)
		require.NoError(t, err)
		require.True(t, x.Equal(y), "%+v\n%+v", x, y)
		require.Equal(t, x.Version, y.Version)
		require.Equal(t, data, y.Data())
		require.True(t, strings.HasPrefix(data[KeyNodes], "|") && strings.HasSuffix(data[KeyNodes], "|"))
		for pair := range strings.SplitSeq(strings.Trim(data[KeyNodes], "|"), "|") {
			node, namespace, found := strings.Cut(pair, " ")
			require.True(t, found, "%q", pair)
			if node != "reservation-fence-probe" {
				grant, granted := x.Grants[node]
				require.True(t, granted && (namespace == "" || grant.Phase == Held), "%q", pair)
			}
		}
	})
}
