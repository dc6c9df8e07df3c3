package authn_test

import (
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/services/edge/internal/authn"
)

func tokens(t *testing.T) *authn.Authenticator {
	t.Helper()
	a, err := authn.WithTokens([]authn.Token{
		{Secret: "alice-token-0123", Principal: "alice", Tables: []string{"orders*", "other.payments"}},
		{Secret: "bob-token-012345", Principal: "bob", Tables: []string{"*"}},
		{Secret: "alice-token-new!", Principal: "alice", Tables: []string{"kafka.refund_?"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestRequest(t *testing.T) {
	a := tokens(t)
	for header, want := range map[string]string{
		"Bearer alice-token-0123": "alice", "bearer alice-token-new!": "alice", "Bearer bob-token-012345": "bob", "Bearer  bob-token-012345 ": "bob",
		"": "", "Bearer": "", "Bearer ": "", "Bearer alice-token-012": "", "Bearer alice-token-01234": "",
		"Basic alice-token-0123": "", "alice-token-0123": "", "Bearer ALICE-TOKEN-0123": "",
	} {
		r := httptest.NewRequest("GET", "/v1/config", nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		p, err := a.Request(r)
		if p.Name != want || (want == "") != errors.Is(err, fault.ErrUnauthenticated) {
			t.Errorf("%q: %q, %v", header, p.Name, err)
		}
		if want == "" && (p.Sees("kafka", "orders") || p.Sees("", "")) {
			t.Errorf("%q: nobody sees a table", header)
		}
	}
}

func TestSees(t *testing.T) {
	a := tokens(t)
	alice, ok := a.Named("alice")
	if !ok {
		t.Fatal("alice is not known")
	}
	for _, c := range []struct {
		ns, table string
		want      bool
	}{
		{"kafka", "orders", true}, {"kafka", "orders__changes", true}, {"any", "orders", true},
		{"kafka", "order", false}, {"kafka", "payments", false}, {"other", "payments", true},
		{"kafka", "refund_1", true}, {"kafka", "refund_12", false}, {"other", "refund_1", false}, {"kafka", "", false},
	} {
		if got := alice.Sees(c.ns, c.table); got != c.want {
			t.Errorf("%s.%s: %v", c.ns, c.table, got)
		}
	}
	if _, ok := a.Named(authn.Anonymous); ok {
		t.Error("credentials of the time without tokens go on working")
	}
}

func TestOpen(t *testing.T) {
	p, err := authn.Open().Request(httptest.NewRequest("GET", "/", nil))
	if err != nil || p.Name != authn.Anonymous || !p.Sees("kafka", "orders") {
		t.Errorf("%+v %v", p, err)
	}
}

func TestNoTokens(t *testing.T) {
	for _, list := range [][]authn.Token{nil, {{Principal: "x", Tables: []string{"*"}}}, {{Secret: "s", Tables: []string{"*"}}}, {{Secret: "s", Principal: "x", Tables: []string{"["}}}} {
		if _, err := authn.WithTokens(list); err == nil {
			t.Errorf("%+v accepted", list)
		}
	}
}
