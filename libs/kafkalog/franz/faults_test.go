package franz_test

import (
	"encoding/binary"
	"encoding/pem"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkalog/franz"
	"github.com/frazil-io/frazil/libs/kafkalog/kafkalogtest"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// filled makes a topic with a partition of three batches of one record each.
func filled(t *testing.T, c *kfake.Cluster, client *franz.Client) kafkalog.Topic {
	t.Helper()
	w := commands(t, c)
	w.Create(t, "topic", 2, false)
	for i := range 3 {
		w.Append(t, "topic", 0, kafkalogtest.Zstd, kafkalog.Record{Key: fmt.Append(nil, i), Value: []byte("v"), TimestampMs: 1})
	}
	topic, err := client.Topic(t.Context(), "topic")
	if err != nil {
		t.Fatal(err)
	}
	return topic
}

func offsets(t *testing.T, client *franz.Client, topic kafkalog.Topic, rng kafkapos.Range) ([]kafkapos.Offset, kafkalog.Result, error) {
	t.Helper()
	var got []kafkapos.Offset
	res, err := client.Read(t.Context(), topic, 0, rng, kafkalog.Visitor{Record: func(r *kafkalog.Record) error {
		got = append(got, r.Offset)
		return nil
	}})
	return got, res, err
}

func wantAll(t *testing.T, client *franz.Client, topic kafkalog.Topic) kafkalog.Result {
	t.Helper()
	got, res, err := offsets(t, client, topic, kafkapos.Range{Start: 0, End: 3})
	if err != nil || !slices.Equal(got, []kafkapos.Offset{0, 1, 2}) {
		t.Errorf("read %v, %v", got, err)
	}
	return res
}

func TestAReadSurvivesWhatPasses(t *testing.T) {
	for _, code := range []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.UnknownTopicID, kerr.UnknownTopicOrPartition, kerr.KafkaStorageError,
		kerr.FencedLeaderEpoch, kerr.UnknownServerError,
	} {
		t.Run(code.Message, func(t *testing.T) {
			c := fake(t)
			client := open(t, c, nil)
			topic := filled(t, c, client)
			hit := c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: code, Count: 2})
			wantAll(t, client, topic)
			if hit.Hits() != 2 {
				t.Errorf("the fault was met %d times", hit.Hits())
			}
		})
	}
}

func TestAReadFollowsTheLeader(t *testing.T) {
	c := fake(t)
	client := open(t, c, nil)
	topic := filled(t, c, client)
	for range 4 {
		wantAll(t, client, topic)
		if err := c.MoveTopicPartition("topic", 0, 1-c.LeaderFor("topic", 0)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAReadGivesUp(t *testing.T) {
	c := fake(t)
	client := open(t, c, func(cfg *franz.Config) { cfg.RetryFor = 200 * time.Millisecond })
	topic := filled(t, c, client)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: -1})
	if _, _, err := offsets(t, client, topic, kafkapos.Range{Start: 0, End: 3}); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestAPartitionWithoutAnAnswerIsOffline(t *testing.T) {
	c := fake(t)
	client := open(t, c, nil)
	topic := filled(t, c, client)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "topic", Partitions: []int32{1}, Err: kerr.LeaderNotAvailable, Count: -1})
	ends, err := client.Ends(t.Context(), topic)
	if err != nil || !ends[1].Offline || ends[0] != (kafkalog.Ends{LastStable: 3}) {
		t.Errorf("got %+v, %v", ends, err)
	}
}

// answer makes every fetch answer this.
func answer(c *kfake.Cluster, topic kafkalog.Topic, edit func(*kmsg.FetchResponseTopicPartition)) {
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		if edit == nil {
			return resp, nil, true
		}
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = topic.Name, topic.ID
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = 3, 3, 0
		edit(&rp)
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
}

// batch encodes a batch at [0,3) with as many records as there are offsets.
func batch(attributes int16, records ...kmsg.Record) []byte {
	b := kmsg.RecordBatch{Magic: 2, Attributes: attributes, LastOffsetDelta: 2, NumRecords: int32(len(records)), ProducerID: 7, PartitionLeaderEpoch: 5, FirstTimestamp: 10, MaxTimestamp: 20}
	for _, r := range records {
		body := r.AppendTo(nil)[1:] // a length of 0 is one byte
		b.Records = append(binary.AppendVarint(b.Records, int64(len(body))), body...)
	}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	raw := b.AppendTo(nil)
	b.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

func three() []kmsg.Record {
	return []kmsg.Record{{OffsetDelta: 0}, {OffsetDelta: 1}, {OffsetDelta: 2}}
}

func TestABrokenBatchIsNotServed(t *testing.T) {
	c := fake(t)
	client := open(t, c, nil)
	topic := filled(t, c, client)
	good := batch(0, three()...)
	broken := slices.Clone(good)
	broken[len(good)-1] ^= 1
	now := good
	answer(c, topic, func(p *kmsg.FetchResponseTopicPartition) { p.RecordBatches = now })
	if res := wantAll(t, client, topic); res.LeaderEpoch != 5 || res.Bytes != int64(len(good)) {
		t.Errorf("result %+v", res)
	}
	now = broken
	if got, _, err := offsets(t, client, topic, kafkapos.Range{Start: 0, End: 3}); !errors.Is(err, fault.ErrCorrupt) || len(got) > 0 {
		t.Errorf("read %v, %v", got, err)
	}
}

func TestAnAbortedBatchWithHolesIsNotAllNonRow(t *testing.T) {
	c := fake(t)
	client := open(t, c, nil)
	topic := filled(t, c, client)
	const transactional = 0x10
	answer(c, topic, func(p *kmsg.FetchResponseTopicPartition) {
		p.RecordBatches = batch(transactional, kmsg.Record{OffsetDelta: 0}, kmsg.Record{OffsetDelta: 2})
		p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 7}}
	})
	var got []kafkapos.Range
	_, err := client.Read(t.Context(), topic, 0, kafkapos.Range{Start: 0, End: 3}, kafkalog.Visitor{
		Record: func(r *kafkalog.Record) error { return fmt.Errorf("visited %d", r.Offset) },
		NonRow: func(r kafkapos.Range) error { got = append(got, r); return nil },
	})
	if want := []kafkapos.Range{{Start: 0, End: 1}, {Start: 2, End: 3}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestThrottledAnswersAreNotTheEnd(t *testing.T) {
	c := fake(t)
	client := open(t, c, func(cfg *franz.Config) { cfg.RetryFor = 100 * time.Millisecond })
	topic := filled(t, c, client)
	answer(c, topic, nil)
	if _, _, err := offsets(t, client, topic, kafkapos.Range{Start: 0, End: 3}); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
}

func TestNothingUpToTheEndIsAGapOnlyIfItIsConfirmed(t *testing.T) {
	c := fake(t)
	client := open(t, c, nil)
	topic := filled(t, c, client)
	asked := 0
	answer(c, topic, func(p *kmsg.FetchResponseTopicPartition) {
		if asked++; asked == 2 {
			p.RecordBatches = batch(0, three()...)
		}
	})
	wantAll(t, client, topic)
	asked = 2 // from now on there is nothing
	if got, _, err := offsets(t, client, topic, kafkapos.Range{Start: 0, End: 3}); err != nil || len(got) > 0 {
		t.Errorf("read %v, %v", got, err)
	}
}

func TestAReplicaInTheRackIsReadAndNotBelieved(t *testing.T) {
	c := fake(t)
	client := open(t, c, func(cfg *franz.Config) { cfg.RackID = "here" })
	topic := filled(t, c, client)
	leader := c.LeaderFor("topic", 0)
	c.SetFollowers("topic", 0, []int32{1 - leader})
	var racks []string
	c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		racks = append(racks, fmt.Sprint(c.CurrentNode() == leader, req.(*kmsg.FetchRequest).Rack))
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = topic.Name, topic.ID
		rp := kmsg.NewFetchResponseTopicPartition()
		rp.HighWatermark, rp.LastStableOffset, rp.LogStartOffset = 3, 3, 0
		switch {
		case c.CurrentNode() != leader: // it lags
			rp.HighWatermark, rp.LastStableOffset = 0, 0
		case req.(*kmsg.FetchRequest).Rack != "":
			rp.PreferredReadReplica = 1 - leader
		default:
			rp.RecordBatches = batch(0, three()...)
		}
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	wantAll(t, client, topic)
	if want := "truehere,falsehere,true"; strings.Join(racks, ",") != want {
		t.Errorf("asked %q, want %q", racks, want)
	}
}

func TestSecurity(t *testing.T) {
	srv := httptest.NewTLSServer(nil) // for its certificate
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	c := fake(t, kfake.TLS(srv.TLS), kfake.EnableSASL(), kfake.Superuser("PLAIN", "p", "pw"), kfake.Superuser("SCRAM-SHA-256", "s2", "pw"), kfake.Superuser("SCRAM-SHA-512", "s5", "pw"))
	for name, tc := range map[string]struct {
		tls  franz.TLS
		sasl franz.SASL
		want error
	}{
		"plain":             {franz.TLS{Enabled: true, CAFile: ca}, franz.SASL{Mechanism: "PLAIN", Username: "p", Password: "pw"}, nil},
		"scram 256":         {franz.TLS{Enabled: true, CAFile: ca, ServerName: "example.com"}, franz.SASL{Mechanism: "SCRAM-SHA-256", Username: "s2", Password: "pw"}, nil},
		"scram 512":         {franz.TLS{Enabled: true, InsecureSkipVerify: true}, franz.SASL{Mechanism: "SCRAM-SHA-512", Username: "s5", Password: "pw"}, nil},
		"unknown authority": {franz.TLS{Enabled: true}, franz.SASL{Mechanism: "PLAIN", Username: "p", Password: "pw"}, fault.ErrUnavailable},
		"wrong host":        {franz.TLS{Enabled: true, CAFile: ca, ServerName: "other.host"}, franz.SASL{Mechanism: "PLAIN", Username: "p", Password: "pw"}, fault.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			client := open(t, c, func(cfg *franz.Config) {
				cfg.TLS, cfg.SASL, cfg.RequestTimeout = tc.tls, tc.sasl, 2*time.Second
			})
			if _, err := client.Topics(t.Context()); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestARefusedPasswordIsDenied(t *testing.T) {
	c := fake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "p", "pw"))
	// The fake only hangs up on a wrong password; a broker says why.
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.SASLAuthenticate}, Err: kerr.SaslAuthenticationFailed, Count: -1})
	client := open(t, c, func(cfg *franz.Config) { cfg.SASL = franz.SASL{Mechanism: "PLAIN", Username: "p", Password: "pw"} })
	if _, err := client.Topics(t.Context()); !errors.Is(err, fault.ErrDenied) {
		t.Errorf("got %v", err)
	}
}

func TestWhatMayNotBeRead(t *testing.T) {
	c := fake(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "root", "pw"),
		kfake.User("PLAIN", "poor", "pw", kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "topic", Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationDescribe, Allow: true}))
	as := func(user string) *franz.Client {
		return open(t, c, func(cfg *franz.Config) {
			cfg.SASL = franz.SASL{Mechanism: "PLAIN", Username: user, Password: "pw"}
		})
	}
	if err := c.CreateTopic("topic", 1, nil); err != nil {
		t.Fatal(err)
	}
	topic, err := as("root").Topic(t.Context(), "topic")
	if err != nil {
		t.Fatal(err)
	}
	poor := as("poor")
	if _, _, err := offsets(t, poor, topic, kafkapos.Range{Start: 0, End: 1}); !errors.Is(err, fault.ErrDenied) {
		t.Errorf("read: %v", err)
	}
	if cfg, err := poor.Config(t.Context(), "topic"); err != nil || cfg.Known {
		t.Errorf("configuration: %+v, %v", cfg, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, change := range map[string]func(*franz.Config){
		"no brokers":            func(c *franz.Config) { c.Brokers = nil },
		"no timeout":            func(c *franz.Config) { c.FetchTimeout = 0 },
		"certificate, no key":   func(c *franz.Config) { c.TLS = franz.TLS{Enabled: true, CertFile: "x"} },
		"tls off but set":       func(c *franz.Config) { c.TLS.CAFile = "x" },
		"user, no mechanism":    func(c *franz.Config) { c.SASL.Username = "u" },
		"mechanism, no user":    func(c *franz.Config) { c.SASL.Mechanism = "PLAIN" },
		"mechanism not known":   func(c *franz.Config) { c.SASL = franz.SASL{Mechanism: "GSSAPI", Username: "u", Password: "p"} },
		"bearer, no token":      func(c *franz.Config) { c.SASL.Mechanism = "OAUTHBEARER" },
		"fetches that are tiny": func(c *franz.Config) { c.FetchBytes = 1 },
	} {
		cfg := franz.Default()
		cfg.Brokers = []string{"localhost:9092"}
		change(&cfg)
		if _, err := cfg.Validate(); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if s := fmt.Sprintf("%v %+v %#v", franz.SASL{Password: "hush"}, franz.SASL{Password: "hush"}, franz.SASL{Password: "hush"}); strings.Contains(s, "hush") {
		t.Errorf("a password is printed: %s", s)
	}
}
