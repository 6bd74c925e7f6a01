package inject

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

// TestPod_gives_what_the_page_shows compares with the YAML of spec.md, "What gets injected at admission".
func TestPod_gives_what_the_page_shows(t *testing.T) {
	run(t, map[string]podCase{
		"a plain pod": {
			pod:  example(`{"containers":[{"name":"trainer","image":"i"}]}`),
			want: `{"containers":[{"name":"trainer","image":"i"}],"affinity":` + required(exprs(reqR)) + `,"tolerations":[` + tolT + `]}`,
		},
		"a pod whose labels do not match": {pod: stranger(`{"containers":[]}`)},
		"a pod without labels":            {pod: podWith("null", "null", `{"containers":[]}`)},
		"affinity alone":                  {pod: example(`{}`), bindings: bindings(alphaBind(noToleration)), want: withTerms(exprs(reqR))},
		"toleration alone":                {pod: example(`{}`), bindings: bindings(alphaBind(noAffinity)), want: `{"tolerations":[` + tolT + `]}`},
		"neither":                         {pod: example(`{}`), bindings: bindings(alphaBind(noAffinity, noToleration))},
		"no bindings":                     {pod: example(`{}`), bindings: bindings()},
	})
}

func TestCases_A18_the_requirement_goes_into_every_term(t *testing.T) {
	run(t, map[string]podCase{
		"two terms, one with fields": {
			pod: example(withTerms(exprs(zoneA) + `,{"matchExpressions":[{"key":"gpu-health","operator":"NotIn","values":["ERR","TESTING"]}],` +
				`"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n7"]}]}`)),
			want: injected(exprs(zoneA+","+reqR) + `,{"matchExpressions":[{"key":"gpu-health","operator":"NotIn","values":["ERR","TESTING"]},` + reqR + `],` +
				`"matchFields":[{"key":"metadata.name","operator":"NotIn","values":["n7"]}]}`),
		},
		"an empty term matches nothing and stays": {
			pod:  example(withTerms(`{},` + exprs(zoneA) + `,{"matchExpressions":[],"matchFields":null}`)),
			want: injected(`{},` + exprs(zoneA+","+reqR) + `,{"matchExpressions":[],"matchFields":null}`),
		},
		"nothing but empty terms": {
			pod: example(withTerms(`{},null`)), want: injected(`{},null`)},
		"a term with fields alone": {
			pod:  example(withTerms(`{` + pinX + `}`)),
			want: injected(`{` + pinX + `,"matchExpressions":[` + reqR + `]}`),
		},
		"an empty list of terms is the API server's to refuse": {
			pod: example(withTerms(``)), want: injected(``)},
		"no list of terms": {
			pod:  example(`{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{}}}}`),
			want: `{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{}}},"tolerations":[` + tolT + `]}`,
		},
		"some terms have it already": {
			pod:  example(withTerms(exprs(reqR) + "," + exprs(zoneA))),
			want: injected(exprs(reqR) + "," + exprs(zoneA+","+reqR)),
		},
		"a wider requirement of its own is narrowed": {
			pod:  example(withTerms(exprs(`{"key":"reserved.tenant","operator":"In","values":["alpha","beta"]}`))),
			want: injected(exprs(`{"key":"reserved.tenant","operator":"In","values":["alpha","beta"]},` + reqR)),
		},
		"an In without values is not ours": {
			pod:     example(withTerms(exprs(`{"key":"reserved.tenant","operator":"In","values":[]}`))),
			wantErr: []string{"matchExpressions[0]"},
		},
	})
}

func TestCases_A19_pods_of_a_DaemonSet_get_the_toleration_alone(t *testing.T) {
	pinned := withTerms(`{` + pinX + `}`)
	run(t, map[string]podCase{
		"pinned by its controller": {
			pod: ownedBy(daemonSet, pinned), want: injected(`{` + pinX + `}`)},
		"claims the owner and is not pinned": {
			pod: ownedBy(daemonSet, `{}`), want: injected(exprs(reqR))},
		"claims the owner and is pinned to two nodes": {
			pod:  ownedBy(daemonSet, withTerms(`{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1","n2"]}]}`)),
			want: injected(`{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1","n2"]}],"matchExpressions":[` + reqR + `]}`),
		},
		"claims the owner, pinned in one of its terms only": {
			pod:  ownedBy(daemonSet, withTerms(`{`+pinX+`},`+exprs(zoneA))),
			want: injected(`{` + pinX + `,"matchExpressions":[` + reqR + `]},` + exprs(zoneA+","+reqR)),
		},
		"pinned, and the owner is not its controller": {
			pod: ownedBy(daemonSetNot, pinned), want: injected(`{` + pinX + `,"matchExpressions":[` + reqR + `]}`)},
		"pinned, and the owner is another kind of DaemonSet": {
			pod:  ownedBy(`[{"apiVersion":"apps.example/v1","kind":"DaemonSet","controller":true}]`, pinned),
			want: injected(`{` + pinX + `,"matchExpressions":[` + reqR + `]}`)},
		"its own demands are not held against it: refusing it makes the controller try for ever": {
			pod: ownedBy(daemonSet, withTerms(`{`+pinX+`,"matchExpressions":[`+out+`]}`)), want: injected(`{` + pinX + `,"matchExpressions":[` + out + `]}`)},
		"tolerating everything, it may run on its tenant's nodes and on unreserved ones": {
			pod: ownedBy(daemonSet, tolerating(wildcard, required(`{`+pinX+`}`))),
			want: tolerating(wildcard, required(
				`{`+pinX+`,"matchExpressions":[`+reqR+`]},{`+pinX+`,"matchExpressions":[`+out+`]}`))},
	})
}

func TestCases_A21_what_is_there_stays(t *testing.T) {
	const weighted = `"preferredDuringSchedulingIgnoredDuringExecution":[` +
		`{"weight":2,"preference":{"matchExpressions":[{"key":"machine","operator":"In","values":["A"]}]}},` +
		`{"weight":3,"preference":{"matchExpressions":[{"key":"machine","operator":"In","values":["B"]}]}}]`
	const machines = `{"key":"machine","operator":"In","values":["A","B"]}`
	block := func(terms string) string {
		return `"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` + terms + `]}`
	}
	const anti = `"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone"}]}`
	const own = `{"key":"nvidia.com/gpu","operator":"Exists"},` +
		`{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":30}`
	run(t, map[string]podCase{
		"required and preferred": {
			pod:  example(`{"affinity":{"nodeAffinity":{` + block(exprs(machines)) + `,` + weighted + `}}}`),
			want: `{"affinity":{"nodeAffinity":{` + block(exprs(machines+","+reqR)) + `,` + weighted + `}},"tolerations":[` + tolT + `]}`,
		},
		"only preferred": {
			pod:  example(`{"affinity":{"nodeAffinity":{` + weighted + `}}}`),
			want: `{"affinity":{"nodeAffinity":{` + block(exprs(reqR)) + `,` + weighted + `}},"tolerations":[` + tolT + `]}`,
		},
		"a nodeSelector": {
			pod:  example(`{"nodeSelector":{"gke-tpu-topology":"4x4"}}`),
			want: `{"nodeSelector":{"gke-tpu-topology":"4x4"},"affinity":` + required(exprs(reqR)) + `,"tolerations":[` + tolT + `]}`,
		},
		"a nodeSelector on the tenant itself": {
			pod:  example(`{"nodeSelector":{"reserved.tenant":"alpha"}}`),
			want: `{"nodeSelector":{"reserved.tenant":"alpha"},"affinity":` + required(exprs(reqR)) + `,"tolerations":[` + tolT + `]}`,
		},
		"podAntiAffinity alone": {
			pod:  example(`{"affinity":{` + anti + `}}`),
			want: `{"affinity":{` + anti + `,"nodeAffinity":{` + block(exprs(reqR)) + `}},"tolerations":[` + tolT + `]}`,
		},
		"tolerations, network and priority": {
			pod:  example(`{"tolerations":[` + own + `],"hostNetwork":true,"priorityClassName":"high"}`),
			want: `{"tolerations":[` + own + `,` + tolT + `],"hostNetwork":true,"priorityClassName":"high","affinity":` + required(exprs(reqR)) + `}`,
		},
	})
}

func TestCases_A22_lists_that_are_missing_null_or_have_it_already(t *testing.T) {
	done := required(exprs(reqR))
	run(t, map[string]podCase{
		"tolerations null":          {pod: example(`{"tolerations":null}`), want: injected(exprs(reqR))},
		"tolerations an empty list": {pod: example(`{"tolerations":[]}`), want: injected(exprs(reqR))},
		"affinity null":             {pod: example(`{"affinity":null}`), want: injected(exprs(reqR))},
		"affinity empty":            {pod: example(`{"affinity":{}}`), want: injected(exprs(reqR))},
		"nodeAffinity null":         {pod: example(`{"affinity":{"nodeAffinity":null}}`), want: injected(exprs(reqR))},
		"required null": {
			pod: example(`{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":null}}}`), want: injected(exprs(reqR))},
		"expressions null": {
			pod: example(withTerms(`{` + pinX + `,"matchExpressions":null}`)), want: injected(`{` + pinX + `,"matchExpressions":[` + reqR + `]}`)},
		"the toleration itself":    {pod: example(tolerating(tolT, done))},
		"for any value":            {pod: example(tolerating(`{"key":"reserved","operator":"Exists","effect":"NoSchedule"}`, done))},
		"for any value and effect": {pod: example(tolerating(`{"key":"reserved","operator":"Exists"}`, done))},
		"for any effect":           {pod: example(tolerating(`{"key":"reserved","value":"alpha"}`, done))},
		"for everything":           {pod: example(tolerating(wildcard, done))},
		"gated, as any other": {
			pod:  example(`{"schedulingGates":[{"name":"queue"}]}`),
			want: `{"schedulingGates":[{"name":"queue"}],"affinity":` + done + `,"tolerations":[` + tolT + `]}`},
		"another effect does not do": {
			pod:  example(tolerating(`{"key":"reserved","operator":"Exists","effect":"NoExecute"}`, done)),
			want: tolerating(`{"key":"reserved","operator":"Exists","effect":"NoExecute"},`+tolT, done)},
		"another tenant's does not do": {
			pod:  example(tolerating(`{"key":"reserved","operator":"Equal","value":"beta"}`, done)),
			want: tolerating(`{"key":"reserved","operator":"Equal","value":"beta"},`+tolT, done)},
		"an operator that is not known does not do": {
			pod:  example(tolerating(`{"key":"reserved","operator":"Gt","value":"alpha"}`, done)),
			want: tolerating(`{"key":"reserved","operator":"Gt","value":"alpha"},`+tolT, done)},
		"one with a limit in time does not do": {
			pod:      example(tolerating(`{"key":"reserved","operator":"Exists","effect":"NoExecute","tolerationSeconds":9}`, done)),
			bindings: bindings(alphaBind(effect(corev1.TaintEffectNoExecute))),
			want: tolerating(`{"key":"reserved","operator":"Exists","effect":"NoExecute","tolerationSeconds":9},`+
				`{"key":"reserved","operator":"Equal","value":"alpha","effect":"NoExecute"}`, done)},
	})
}

func TestPod_merges_the_bindings_of_one_tenant(t *testing.T) {
	noExecute := `{"key":"reserved","operator":"Equal","value":"alpha","effect":"NoExecute"}`
	run(t, map[string]podCase{
		"the same twice": {
			pod: example(`{}`), bindings: bindings(alphaBind(), alphaBind(named("other"), selectingAll)), want: injected(exprs(reqR))},
		"affinity by one and toleration by the other": {
			pod: example(`{}`), bindings: bindings(alphaBind(noAffinity), alphaBind(named("other"), noToleration)), want: injected(exprs(reqR))},
		"two effects, in the order of the bindings' names": {
			pod: example(`{}`), bindings: bindings(alphaBind(named("b")), alphaBind(named("a"), effect(corev1.TaintEffectNoExecute))),
			want: `{"affinity":` + required(exprs(reqR)) + `,"tolerations":[` + noExecute + `,` + tolT + `]}`},
		"two effects beside a toleration of its own": {
			pod:      example(tolerating(`{"key":"x","operator":"Exists"}`, required(exprs(reqR)))),
			bindings: bindings(alphaBind(named("b")), alphaBind(named("a"), effect(corev1.TaintEffectNoExecute))),
			want:     tolerating(`{"key":"x","operator":"Exists"},`+noExecute+`,`+tolT, required(exprs(reqR)))},
		"of two tenants is refused": {
			pod: example(`{}`), bindings: bindings(alphaBind(), alphaBind(named("beta-bind"), of("beta"))),
			wantErr: []string{"alpha-bind (tenant alpha)", "beta-bind (tenant beta)", "change its labels"}},
		"of another tenant does not count while it gives nothing": {
			pod: example(`{}`), bindings: bindings(alphaBind(), alphaBind(named("beta-bind"), of("beta"), noAffinity, noToleration)),
			want: injected(exprs(reqR))},
		"of another tenant does not count where it does not select": {
			pod:      podWith(`{"team":"debug"}`, "null", `{}`),
			bindings: bindings(alphaBind(selectingAll), alphaBind(named("beta-bind"), of("beta"))), want: injected(exprs(reqR))},
	})
}

func TestPod_refuses_demands_that_leave_no_node(t *testing.T) {
	on := func(operator, values string) string {
		return `{"key":"reserved.tenant","operator":"` + operator + `","values":[` + values + `]}`
	}
	run(t, map[string]podCase{
		"another tenant by nodeSelector": {
			pod:     example(`{"nodeSelector":{"reserved.tenant":"beta"}}`),
			wantErr: []string{`spec.nodeSelector[reserved.tenant] demands tenant "beta"`, "ReservationBinding alpha-bind", "tenant alpha", "remove that demand"}},
		"another tenant by affinity": {
			pod:     example(withTerms(exprs(zoneA + "," + on("In", `"beta"`)))),
			wantErr: []string{"nodeSelectorTerms[0].matchExpressions[1] demands reserved.tenant In [beta]"}},
		"anybody but the tenant": {
			pod: example(withTerms(exprs(on("NotIn", `"alpha","beta"`)))), wantErr: []string{"reserved.tenant NotIn [alpha, beta]"}},
		"unreserved nodes": {
			pod: example(withTerms(exprs(out))), wantErr: []string{"demands reserved.tenant DoesNotExist, but"}},
		"a number": {pod: example(withTerms(exprs(on("Gt", `"5"`)))), wantErr: []string{"reserved.tenant Gt [5]"}},
		"a long list is cut": {
			pod: example(withTerms(exprs(on("In", `"a","b","c","d"`)))), wantErr: []string{"[a, b, c, … 4 in all]"}},
		"in every term that is not empty": {
			pod: example(withTerms(`{},` + exprs(on("In", `"beta"`)) + "," + exprs(out))), wantErr: []string{"nodeSelectorTerms[1].matchExpressions[0]"}},
		"in some of the terms only is left to fail there": {
			pod:  example(withTerms(exprs(on("In", `"beta"`)) + "," + exprs(zoneA))),
			want: injected(exprs(on("In", `"beta"`)+","+reqR) + "," + exprs(zoneA+","+reqR))},
		"demands that agree": {
			pod:  example(withTerms(exprs(on("In", `"beta","alpha"`) + "," + on("NotIn", `"beta"`) + "," + `{"key":"reserved.tenant","operator":"Exists"}`))),
			want: injected(exprs(on("In", `"beta","alpha"`) + "," + on("NotIn", `"beta"`) + "," + `{"key":"reserved.tenant","operator":"Exists"},` + reqR))},
		"not where the binding gives no affinity": {
			pod: example(withTerms(exprs(out))), bindings: bindings(alphaBind(noAffinity)), want: injected(exprs(out))},
	})
}

func TestPod_keeps_out_what_tolerates_reserved_nodes_without_a_binding(t *testing.T) {
	gpu := `{"key":"nvidia.com/gpu","operator":"Exists"}`
	kept := required(exprs(out))
	cases := map[string]podCase{
		"other tolerations alone": {pod: stranger(tolerating(gpu, ""))},
		"kept out already":        {pod: stranger(tolerating(wildcard, kept))},
		"into every term, and empty ones stay": {
			pod:  stranger(tolerating(wildcard, required(exprs(zoneA)+`,{},`+exprs(out)))),
			want: tolerating(wildcard, required(exprs(zoneA+","+out)+`,{},`+exprs(out)))},
		"beside a preference": {
			pod:  stranger(tolerating(wildcard, `{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[]},"podAffinity":{}}`)),
			want: tolerating(wildcard, `{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[],`+requiredOnly(exprs(out))[1:]+`,"podAffinity":{}}`)},
		"a DaemonSet's pod too": {
			pod:  podWith("null", daemonSet, tolerating(wildcard, required(`{`+pinX+`}`))),
			want: tolerating(wildcard, required(`{`+pinX+`,"matchExpressions":[`+out+`]}`))},
		"a binding that gives nothing is no binding": {
			pod: example(tolerating(wildcard, "")), bindings: bindings(alphaBind(noAffinity, noToleration)), want: tolerating(wildcard, kept)},
		"in a namespace without bindings": {
			pod: example(tolerating(wildcard, "")), bindings: bindings(), want: tolerating(wildcard, kept)},
		"one that a binding sends to its tenant is fine": {
			pod: example(tolerating(wildcard, "")), want: tolerating(wildcard, required(exprs(reqR)))},
		"one that a binding lets in, and that tolerates others too, is confined to its tenant's and unreserved nodes": {
			pod: example(tolerating(wildcard, "")), bindings: bindings(alphaBind(noAffinity)),
			want: tolerating(wildcard, required(exprs(reqR)+","+exprs(out)))},
		"likewise for each of its terms, with what is unknown in them": {
			pod: example(tolerating(wildcard, required(`{"future":1.50,"matchExpressions":[`+zoneA+`]},`+exprs(reqR)+`,{}`))), bindings: bindings(alphaBind(noAffinity)),
			want: tolerating(wildcard, required(`{"future":1.50,"matchExpressions":[`+zoneA+`,`+reqR+`]},`+exprs(reqR)+`,{},{"future":1.50,"matchExpressions":[`+zoneA+`,`+out+`]}`))},
		"one that a binding lets in, and that tolerates its own tenant alone, is free": {
			pod: example(tolerating(tolT, "")), bindings: bindings(alphaBind(noAffinity))},
	}
	for name, toleration := range map[string]string{
		"everything":                   wildcard,
		"everything, one effect":       `{"operator":"Exists","effect":"NoExecute"}`,
		"any tenant":                   `{"key":"reserved","operator":"Exists"}`,
		"one tenant":                   `{"key":"reserved","operator":"Equal","value":"beta","effect":"NoSchedule"}`,
		"one tenant, without operator": `{"key":"reserved","value":"beta"}`,
		"the tenant whose binding does not select it": tolT,
		"an operator that compares":                   `{"key":"reserved","operator":"Lt","value":"5"}`,
		"an operator of the future":                   `{"key":"reserved","operator":"Matches","value":".*"}`,
		"another effect":                              `{"key":"reserved","operator":"Exists","effect":"PreferNoSchedule"}`,
		"for a while":                                 `{"key":"reserved","operator":"Exists","effect":"NoExecute","tolerationSeconds":5}`,
	} {
		cases["tolerates "+name] = podCase{pod: stranger(tolerating(gpu+","+toleration, "")), want: tolerating(gpu+","+toleration, kept)}
	}
	run(t, cases)
}

func TestPod_says_what_is_no_pod(t *testing.T) {
	for name, raw := range map[string]string{
		"nothing":              ``,
		"no JSON":              `{`,
		"a list":               `[]`,
		"no spec":              `{"metadata":{}}`,
		"spec null":            `{"spec":null}`,
		"spec of another kind": `{"spec":{"affinity":[]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Pod([]byte(raw), bindings(alphaBind()))
			require.ErrorContains(t, err, "decoding the pod")
			var refused *RefusedError
			require.NotErrorAs(t, err, &refused)
		})
	}
}
