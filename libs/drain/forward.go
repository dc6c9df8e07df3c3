package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergcommit"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// forward moves the target branch to the newest snapshot of the drained branch that has no equality delete: its
// readers never meet one. It answers whether the target is there.
func (d *drainer) forward(ctx context.Context) (bool, error) {
	pause := 100 * time.Millisecond
	for try := 0; ; try++ {
		t, err := d.cat.Load(ctx)
		if err != nil {
			return false, err
		}
		s, err := d.clean(ctx, t)
		if err != nil || s == nil {
			return false, err
		}
		target, err := t.Meta.Head(d.cfg.Target)
		if err != nil {
			return false, err
		}
		if target != nil && target.ID == s.ID {
			return true, nil
		}
		c, err := icebergcommit.FastForward(t.Base, d.cfg.Target, s.ID, d.cfg.Now())
		if errors.Is(err, fault.ErrConflict) {
			return false, fmt.Errorf("%w: branch %s stays where it is: commits that only it has, compactions too, have to be made on branch %s", err, d.cfg.Target, d.cfg.Branch)
		}
		if err != nil {
			return false, fmt.Errorf("move branch %s on: %w", d.cfg.Target, err)
		}
		err = d.move(ctx, t, c)
		if err == nil {
			d.report.Forwarded = s.ID
			return true, nil
		}
		if !errors.Is(err, fault.ErrConflict) || try == d.cfg.Retries {
			return false, fmt.Errorf("move branch %s on: %w", d.cfg.Target, err)
		}
		d.report.Conflicts++
		if err := d.cfg.Sleep(ctx, pause); err != nil {
			return false, err
		}
		pause = min(2*pause, 10*time.Second)
	}
}

// move sends a commit that moves a branch. A commit of which nobody knows what became of it may be sent again.
func (d *drainer) move(ctx context.Context, t *Table, c *icebergcommit.Commit) error {
	err := d.cat.Commit(ctx, t, c)
	if err == nil || ctx.Err() != nil {
		return err
	}
	now, loadErr := d.cat.Load(ctx)
	if loadErr != nil {
		return errors.Join(err, loadErr)
	}
	if head, headErr := now.Meta.Head(c.Branch); headErr == nil && head != nil && head.ID == c.SnapshotID {
		return nil
	}
	if refused(err) {
		return err
	}
	return fmt.Errorf("%w: %w", fault.ErrConflict, err)
}

// clean answers the newest snapshot of the drained branch that has no equality delete; nil if none of those after the
// target is such.
func (d *drainer) clean(ctx context.Context, t *Table) (*icebergscan.Snapshot, error) {
	s, err := t.Meta.Head(d.cfg.Branch)
	if err != nil {
		return nil, err
	}
	target, err := t.Meta.Head(d.cfg.Target)
	if err != nil {
		return nil, err
	}
	if s != nil && target != nil && s.ID == target.ID {
		return s, nil
	}
	for s != nil && (target == nil || s.ID != target.ID) {
		has, err := hasEquality(ctx, t, s)
		if err != nil {
			return nil, err
		}
		if !has {
			return s, nil
		}
		if s, err = t.Meta.Snapshot(s.ParentID); errors.Is(err, fault.ErrNotFound) {
			return nil, nil
		}
	}
	return nil, nil
}

func hasEquality(ctx context.Context, t *Table, s *icebergscan.Snapshot) (bool, error) {
	scan, err := icebergscan.Open(ctx, t.Store, t.Meta, s)
	if err != nil {
		return false, err
	}
	for e, err := range scan.Entries(ctx, icebergscan.DeletesManifest, icebergscan.Want{}) {
		if err != nil {
			return false, fmt.Errorf("read delete manifests: %w", err)
		}
		if e.Content == icebergscan.EqualityDeletes {
			return true, nil
		}
	}
	return false, nil
}
