package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/frazil-io/frazil/libs/fault"
)

// Report is what the servers say of themselves, summed over the masters.
type Report struct {
	Masters int
	// UsedBytes is memory that Redis has allocated. LimitBytes is its maxmemory, 0 if any master has none.
	UsedBytes, LimitBytes int64
	// AppendOnly: every master keeps an append-only file.
	AppendOnly bool
}

// fitness is what Verify last found. Safe for concurrent use.
type fitness struct {
	mu     sync.Mutex
	known  bool
	unfit  error // nil: the servers may be used
	report Report
}

func (f *fitness) get() (known bool, unfit error, report Report) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known, f.unfit, f.report
}

// set answers whether the report is the first one, or says otherwise about the append-only file.
func (f *fitness) set(unfit error, r Report) (news bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	news = !f.known || f.report.AppendOnly != r.AppendOnly
	f.known, f.unfit, f.report = true, unfit, r
	return news
}

// Verify asks every master whether it may keep our state, and what it uses. fault.ErrInvalid: it may not, because it
// would throw keys away when memory runs short; every call is refused then until another Verify finds it changed.
// fault.ErrUnavailable: it did not answer; what was found before stands.
func (s *Store) Verify(ctx context.Context) error {
	s.verifying.Lock()
	defer s.verifying.Unlock()
	return s.verify(ctx)
}

func (s *Store) verify(ctx context.Context) error {
	infos, err := s.infos(ctx)
	if err != nil {
		return fmt.Errorf("ask Redis about itself: %w", kind(ctx, err))
	}
	report := Report{Masters: len(infos), AppendOnly: true}
	unlimited := false
	var unfit error
	for _, info := range infos {
		if policy := info["maxmemory_policy"]; policy != "noeviction" {
			unfit = fmt.Errorf("redis has maxmemory-policy %s and may throw state away: set it to noeviction: %w", policy, fault.ErrInvalid)
		}
		limit := number(info["maxmemory"])
		unlimited = unlimited || limit == 0
		report.UsedBytes += number(info["used_memory"])
		report.LimitBytes += limit
		report.AppendOnly = report.AppendOnly && info["aof_enabled"] == "1"
	}
	if unlimited {
		report.LimitBytes = 0
	}
	if s.fitness.set(unfit, report) && !report.AppendOnly {
		s.log.Warn("redis keeps no append-only file: its state goes with its process", "masters", report.Masters)
	}
	return unfit
}

// Report is what the last Verify found; zero before the first one.
func (s *Store) Report() Report {
	_, _, report := s.fitness.get()
	return report
}

// fit refuses calls to servers that must not be used, and finds out about them if nobody has.
func (s *Store) fit(ctx context.Context) error {
	known, unfit, _ := s.fitness.get()
	if known {
		return refused(unfit)
	}
	s.verifying.Lock()
	defer s.verifying.Unlock()
	if known, unfit, _ = s.fitness.get(); known {
		return refused(unfit)
	}
	return refused(s.verify(ctx))
}

// refused is the error of a call: the configuration of Redis is not the caller's mistake.
func refused(unfit error) error {
	if errors.Is(unfit, fault.ErrInvalid) {
		return &refusal{unfit.Error()}
	}
	return unfit
}

type refusal struct{ text string }

// Error implements error.
func (r *refusal) Error() string { return r.text }

// Unwrap answers the kind.
func (*refusal) Unwrap() error { return fault.ErrUnavailable }

// infos answers the fields of INFO of every master.
func (s *Store) infos(ctx context.Context) ([]map[string]string, error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		info, err := infoOf(ctx, s.client)
		return []map[string]string{info}, err
	}
	var mu sync.Mutex
	var out []map[string]string
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error {
		info, err := infoOf(ctx, c)
		mu.Lock()
		defer mu.Unlock()
		out = append(out, info)
		return err
	})
	if err == nil && len(out) == 0 {
		err = errors.New("the cluster has no master")
	}
	return out, err
}

func infoOf(ctx context.Context, c redis.Cmdable) (map[string]string, error) {
	text, err := c.Info(ctx).Result()
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			out[name] = value
		}
	}
	return out, nil
}

// number is a decimal of INFO, 0 if it is none.
func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
