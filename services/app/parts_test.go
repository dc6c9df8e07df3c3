package app

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/frazil-io/frazil/tools/command"
)

func TestReadinessSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		r := newReadiness()
		serving := make(chan struct{})
		r.await("catalog", serving)
		away := errors.New("no broker answered")
		answer := away
		door := r.until("kafka", time.Second, slog.New(slog.NewTextHandler(&logs, nil)), func(context.Context) error { return answer })
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- door.Run(ctx) }()
		<-door.Ready()
		synctest.Wait()

		get := func() (int, string) {
			rec := httptest.NewRecorder()
			r.handler(http.NotFoundHandler()).ServeHTTP(rec, httptest.NewRequest("GET", "/readyz", nil))
			return rec.Code, rec.Body.String()
		}
		if code, body := get(); code != 503 || !strings.Contains(body, "kafka: no broker answered") || !strings.Contains(body, "catalog: starting") {
			t.Errorf("%d %s", code, body)
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		if n := strings.Count(logs.String(), "does not answer"); n != 1 {
			t.Errorf("said %d times: %s", n, logs.String())
		}
		answer = nil
		close(serving)
		<-time.After(2 * time.Second)
		synctest.Wait()
		if code, body := get(); code != 200 {
			t.Errorf("%d %s", code, body)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestACalmLogRepeatsNothingForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(newCalm(slog.NewTextHandler(&out, nil), time.Minute)).With("door", "kafka")
		for range 10 {
			log.Warn("unable to connect")
			log.With("broker", 1).Warn("unable to connect")
			log.Warn("something else")
			<-time.After(7 * time.Second)
		}
		if n := strings.Count(out.String(), "unable to connect"); n != 2 {
			t.Errorf("said %d times in 70 s:\n%s", n, out.String())
		}
		if n := strings.Count(out.String(), "something else"); n != 2 {
			t.Errorf("another message: %d times", n)
		}
	})
}

func TestTheSigningKeyIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "vending.key")
	first, err := vendingKey(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := vendingKey(path)
	if err != nil || !bytes.Equal(first, again) || len(first) != vendingKeyBytes {
		t.Errorf("another key: %v", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := vendingKey(path); err == nil {
		t.Error("a torn key is used")
	}
}

func call(t *testing.T, environ []string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(t.Context(), args, environ, command.Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return code, o.String(), e.String()
}

func TestCommandLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "frazil.yaml")
	text := "auth: {mode: token, tokens: [{token: very-secret-token-1, principal: ann, tables: ['*']}]}\ncluster: {secret: " + secret32 + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		environ, args []string
		code          int
		out, errs     string
	}{
		"nothing":             {nil, nil, exitUsage, "", "usage: frazil COMMAND"},
		"help":                {nil, []string{"help"}, exitOK, "healthcheck", ""},
		"help of a command":   {nil, []string{"up", "-h"}, exitOK, "", "--brokers HOST:PORT"},
		"an unknown command":  {nil, []string{"serv"}, exitUsage, "", "did you mean serve"},
		"an unknown flag":     {nil, []string{"up", "--broker", "x"}, exitUsage, "", "broker"},
		"left over":           {nil, []string{"up", "now"}, exitUsage, "", `"now"`},
		"an unknown target":   {nil, []string{"serve", "--target=ledge"}, exitUsage, "", "ledge"},
		"no brokers":          {nil, []string{"up"}, exitUsage, "", "kafka.brokers"},
		"an unknown variable": {[]string{"FRAZIL_CACHE__MAX=1"}, []string{"config", "show"}, exitUsage, "", "cache.max_bytes"},
		"version":             {nil, []string{"version"}, exitOK, "frazil ", ""},
		"flags over the environment over the file": {
			[]string{"FRAZIL_DATA_DIR=/env", "FRAZIL_NAMESPACE=ns"},
			[]string{"config", "show", "--config", file, "--data-dir", "/flag", "--brokers", "a:1,b:2"},
			exitOK, "data_dir: /flag", "",
		},
		"check":                      {nil, []string{"config", "check", "--brokers", "a:1"}, exitOK, "usable by target all", ""},
		"check of a service":         {nil, []string{"config", "check", "--target", "edge"}, exitOK, "usable by target edge", ""},
		"check of an unknown target": {nil, []string{"config", "check", "--target", "ledge"}, exitUsage, "", "ledge"},
		"check finds":                {nil, []string{"config", "check", "--brokers", "nonsense"}, exitUsage, "", "kafka.brokers"},
		"start finds":                {nil, []string{"up", "--brokers", "nonsense"}, exitUsage, "", "kafka.brokers"},
		"show says what check finds": {nil, []string{"config", "show", "--brokers", "nonsense"}, exitOK, "- nonsense", "kafka.brokers"},
		"check warns":                {[]string{"FRAZIL_CREDENTIALS__LIFETIME=2m"}, []string{"config", "check", "--brokers", "a:1"}, exitOK, "usable", "warning: credentials.lifetime"},
		"a tool":                     {nil, []string{"inspect", "no-name"}, exitFailure, "", "inspect no-name"},
	} {
		code, out, errs := call(t, c.environ, c.args...)
		if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errs)
		}
		if strings.Contains(out+errs, "very-secret-token-1") || strings.Contains(out+errs, secret32) {
			t.Errorf("%s shows a secret: %s%s", name, out, errs)
		}
	}
	_, out, _ := call(t, []string{"FRAZIL_NAMESPACE=ns"}, "config", "show", "--config", file, "--brokers", "a:1,b:2")
	for _, want := range []string{"namespace: ns", "- a:1", "- b:2", "token: '***'", "secret: '***'", "retention: 1h0m0s", "max_bytes: 10GiB"} {
		if !strings.Contains(out, want) {
			t.Errorf("config show lacks %q:\n%s", want, out)
		}
	}
}

func TestHealthcheck(t *testing.T) {
	ready := true
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		if _, err := io.WriteString(w, "kafka: away"); err != nil {
			t.Error(err)
		}
	}))
	defer srv.Close()
	if code, _, errs := call(t, nil, "healthcheck", "--url", srv.URL); code != exitOK {
		t.Errorf("exit %d %s", code, errs)
	}
	ready = false
	if code, _, errs := call(t, nil, "healthcheck", "--url", srv.URL); code != exitFailure || !strings.Contains(errs, "kafka: away") {
		t.Errorf("exit %d %s", code, errs)
	}
}
