package cases

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/frazil-io/frazil/integration/inprocess"
)

// clock is the machine's, moved on.
type clock struct{ by atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

// download reads an object with Amazon's client and what was vended.
func download(ctx context.Context, vended map[string]string, uri string) (_ []byte, err error) {
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(vended["s3.endpoint"]), Region: vended["s3.region"], UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{
				AccessKeyID: vended["s3.access-key-id"], SecretAccessKey: vended["s3.secret-access-key"], SessionToken: vended["s3.session-token"],
			}, nil
		}),
	})
	bucket, key, _ := strings.Cut(strings.TrimPrefix(uri, "s3://"), "/")
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: &key})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.Body.Close()) }()
	return io.ReadAll(out.Body)
}

// Credentials that are over: the client hears what they are and what to do, and doing it helps. 400 is Amazon's status
// for it: their clients take 403 for a missing right.
func TestExpiredCredentials(t *testing.T) {
	var moved clock
	g := newGateway(t, func(f *inprocess.Frazil) {
		f.Clock = moved.now
		f.Config.Credentials.Lifetime = 2 * time.Minute
	})
	g.produce(create(1, 10, "a"), create(2, 20, "b"))
	table := g.loaded("v2", 2)
	files, err := table.Files(t.Context(), 0)
	g.must(err)
	before, err := download(t.Context(), table.Config, files[0].Path)
	g.must(err)

	moved.by.Store(int64(3 * time.Minute))
	_, err = download(t.Context(), table.Config, files[0].Path)
	var said interface {
		ErrorCode() string
		ErrorMessage() string
	}
	var status interface{ HTTPStatusCode() int }
	if !errors.As(err, &said) || !errors.As(err, &status) {
		t.Fatalf("with credentials that are over: %v", err)
	}
	if said.ErrorCode() != "ExpiredToken" || status.HTTPStatusCode() != http.StatusBadRequest || !strings.Contains(said.ErrorMessage(), "load the table again") {
		t.Errorf("with credentials that are over: %d %s: %s", status.HTTPStatusCode(), said.ErrorCode(), said.ErrorMessage())
	}
	for way, vended := range map[string]map[string]string{
		"loaded again":          g.loaded("v2", 2).Config,
		"credentials refreshed": g.refreshed(table.Config),
	} {
		if after, err := download(t.Context(), vended, files[0].Path); err != nil || !bytes.Equal(after, before) {
			t.Errorf("%s: %d bytes, want %d, %v", way, len(after), len(before), err)
		}
	}
}

// refreshed asks the endpoint that a load named for new credentials.
func (g *gateway) refreshed(vended map[string]string) map[string]string {
	g.t.Helper()
	res, err := http.Get("http://" + g.Config.REST.Listen + "/" + vended["client.refresh-credentials-endpoint"])
	g.must(err)
	defer res.Body.Close()
	var answer struct {
		Credentials []struct {
			Config map[string]string `json:"config"`
		} `json:"storage-credentials"`
	}
	g.must(json.NewDecoder(res.Body).Decode(&answer))
	if len(answer.Credentials) != 1 {
		g.t.Fatalf("%d credentials, status %d", len(answer.Credentials), res.StatusCode)
	}
	return answer.Credentials[0].Config
}
