package harness

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/frazil-io/frazil/libs/freeport"
)

var (
	//go:embed connect/pom.xml
	connectPOM string
	//go:embed connect/worker.properties.tmpl
	connectProperties string
	//go:embed debezium/pom.xml
	debeziumPOM string
	//go:embed converter/pom.xml
	converterPOM string
)

// Connect is a Kafka Connect worker that has Debezium's PostgreSQL connector and Apicurio's Avro converter.
type Connect struct {
	url     string
	process *process
}

// StartConnect installs and starts a worker.
func StartConnect(t testing.TB, broker Broker) *Connect {
	t.Helper()
	libs := jars(t, "connect", connectPOM, true)
	// A plugin is a folder of jars inside a folder of the plugin path.
	plugins := []string{filepath.Dir(jars(t, "debezium", debeziumPOM, true)), filepath.Dir(jars(t, "converter", converterPOM, true))}
	dir, addr := t.TempDir(), freeport.Address(t)
	var conf bytes.Buffer
	err := template.Must(template.New("").Parse(connectProperties)).Execute(&conf, map[string]string{
		"Brokers": broker.Addr(), "Listen": addr, "Plugins": strings.Join(plugins, ","),
	})
	file := filepath.Join(dir, "worker.properties")
	if err == nil {
		err = os.WriteFile(file, conf.Bytes(), 0o644)
	}
	if err != nil {
		t.Fatalf("prepare worker: %v", err)
	}
	c := &Connect{url: "http://" + addr}
	c.process = start(t, "connect", dir, java("java", "512m", "-cp", filepath.Join(libs, "*"), "org.apache.kafka.connect.cli.ConnectDistributed", file))
	Eventually(t, "worker answers", func() error {
		if err := c.process.running(); err != nil {
			t.Fatal(err)
		}
		return answers(c.url + "/connectors")
	})
	return c
}

// Connector makes a connector and waits until it runs.
func (c *Connect) Connector(t testing.TB, name string, config map[string]string) {
	t.Helper()
	body, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	Eventually(t, "worker takes the connector", func() error {
		status, text, err := c.do(t, http.MethodPut, "/connectors/"+name+"/config", body)
		switch {
		case err != nil:
			return err
		case status == http.StatusConflict || status >= http.StatusInternalServerError: // still joining its group
			return fmt.Errorf("status %d: %s", status, text)
		case status >= http.StatusBadRequest:
			t.Fatalf("connector %s: status %d: %s", name, status, text)
		}
		return nil
	})
	Eventually(t, "connector "+name+" runs", func() error {
		if err := c.Failure(t, name); err != nil {
			t.Fatal(err)
		}
		state, err := c.state(t, name)
		if err == nil && (state.Connector.State != "RUNNING" || len(state.Tasks) == 0 || state.Tasks[0].State != "RUNNING") {
			err = fmt.Errorf("it is %+v", state)
		}
		return err
	})
}

// Failure is what a connector, or one of its tasks, has failed with, or nil.
func (c *Connect) Failure(t testing.TB, name string) error {
	t.Helper()
	state, _ := c.state(t, name) // empty while the connector is not known
	for _, part := range append(state.Tasks, state.Connector) {
		if part.State == "FAILED" {
			return fmt.Errorf("connector %s has failed: %s", name, part.Trace)
		}
	}
	return nil
}

type connectorState struct {
	Connector partState   `json:"connector"`
	Tasks     []partState `json:"tasks"`
}

type partState struct {
	State string `json:"state"`
	Trace string `json:"trace"`
}

func (c *Connect) state(t testing.TB, name string) (connectorState, error) {
	t.Helper()
	var state connectorState
	status, body, err := c.do(t, http.MethodGet, "/connectors/"+name+"/status", nil)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	if err == nil {
		err = json.Unmarshal(body, &state)
	}
	return state, err
}

func (c *Connect) do(t testing.TB, method, path string, body []byte) (int, []byte, error) {
	t.Helper()
	if err := c.process.running(); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}
