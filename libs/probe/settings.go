package probe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/frazil-io/frazil/libs/icebergscan"
)

// Note is what a setting of the table, or its absence, does to equality deletes.
type Note struct {
	// Setting is a name, Value what the table says; "" = unset.
	Setting string `json:"setting"`
	Value   string `json:"value,omitempty"`
	Text    string `json:"text"`
}

// DeleteFileThreshold is the option of Spark's rewrite_data_files that picks data files for the number of their
// delete files. Its default is the largest int: none.
const (
	DeleteFileThreshold        = "delete-file-threshold"
	DeleteFileThresholdDefault = 2147483647
)

// Settings of Flink's conversion (apache/iceberg, ConvertEqualityDeletes): the target branch, and the mark that it
// leaves on the commits there.
const (
	targetBranchSetting = "convert-equality-deletes.target-branch"
	stagingMark         = "equality-convert-staging-snapshot"
)

// Settings explains what maintenance does, as far as the table can tell. threshold is what the caller says of its
// own compaction; 0 = nothing was said.
func Settings(t *icebergscan.Table, r *Report, threshold int64) []Note {
	var out []Note
	out = append(out, thresholdNote(t, r, threshold))
	out = append(out, ratioNote(t))
	if name, value, ok := property(t, targetBranchSetting); ok {
		out = append(out, Note{Setting: name, Value: value, Text: fmt.Sprintf("equality deletes are converted into branch %s; %s", value, lag(t, value))})
	}
	return append(out, branchNotes(t)...)
}

// ThresholdsFor answers the numbers of delete files worth counting for: round ones, and the one that the table or the
// caller names.
func ThresholdsFor(t *icebergscan.Table, said int64) []int64 {
	out := []int64{1, 2, 5, 10, 20, 50, 100}
	if said == 0 {
		if _, value, ok := property(t, DeleteFileThreshold); ok {
			said, _ = strconv.ParseInt(value, 10, 64) //nolint:errcheck // what is no number is shown as it is
		}
	}
	if said > 0 && said < DeleteFileThresholdDefault && !slices.Contains(out, said) {
		out = append(out, said)
		slices.Sort(out)
	}
	return out
}

// property finds a property by the end of its name: services put prefixes before the options that they pass on.
func property(t *icebergscan.Table, end string) (name, value string, ok bool) {
	var names []string
	for n := range t.Properties {
		if n == end || strings.HasSuffix(n, "."+end) {
			names = append(names, n)
		}
	}
	if len(names) == 0 {
		return "", "", false
	}
	slices.Sort(names)
	return names[0], t.Properties[names[0]], true
}

func thresholdNote(t *icebergscan.Table, r *Report, threshold int64) Note {
	n := Note{Setting: DeleteFileThreshold}
	if name, value, ok := property(t, DeleteFileThreshold); ok {
		n.Setting, n.Value = name, value
		if v, err := strconv.ParseInt(value, 10, 64); err == nil && threshold == 0 {
			threshold = v
		}
	}
	if threshold > 0 {
		if n.Value == "" {
			n.Value = strconv.FormatInt(threshold, 10)
		}
		n.Text = fmt.Sprintf("rewrite_data_files takes %d of %d data files for their equality deletes", r.filesWith(threshold), r.Totals.DataFiles)
		return n
	}
	var wouldTake []string
	for _, h := range r.FilesByDeletes {
		if h.AtLeast == 1 || h.AtLeast == 10 || h.AtLeast == 100 {
			wouldTake = append(wouldTake, fmt.Sprintf("%d at %d", h.Files, h.AtLeast))
		}
	}
	n.Text = fmt.Sprintf("unset: rewrite_data_files takes no data file for its delete files (the default is %d). Of %d data files it would take %s",
		DeleteFileThresholdDefault, r.Totals.DataFiles, strings.Join(wouldTake, ", "))
	return n
}

// filesWith answers how many data files have at least n equality delete files, as far as it was counted.
func (r *Report) filesWith(n int64) int64 {
	var files int64
	for _, h := range r.FilesByDeletes {
		if h.AtLeast == n {
			return h.Files
		}
		if h.AtLeast > n {
			break
		}
		files = h.Files
	}
	return files
}

func ratioNote(t *icebergscan.Table) Note {
	n := Note{Setting: "delete-ratio-threshold", Text: "counts deletes that name one data file; equality deletes never do, so it does not see them"}
	if name, value, ok := property(t, n.Setting); ok {
		n.Setting, n.Value = name, value
	}
	return n
}

// branchNotes tell how far branches are behind or ahead of main.
func branchNotes(t *icebergscan.Table) []Note {
	var names []string
	for name, ref := range t.Refs {
		if name != icebergscan.MainBranch && ref.Type == "branch" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var out []Note
	main := t.Refs[icebergscan.MainBranch]
	for _, name := range names {
		head, err := t.Head(name)
		if err != nil {
			continue // a ref to an unlisted snapshot is lint's business
		}
		text := fmt.Sprintf("%s delete keys in equality deletes", orUnknown(head.Summary["total-equality-deletes"]))
		switch ahead, known := distance(t, head.ID, main.SnapshotID); {
		case known:
			text += fmt.Sprintf(", %d snapshots ahead of main", ahead)
		default:
			if behind, known := distance(t, main.SnapshotID, head.ID); known {
				text += fmt.Sprintf(", %d snapshots behind main", behind)
			} else {
				text += ", apart from main"
			}
		}
		out = append(out, Note{Setting: "branch", Value: name, Text: text})
	}
	return out
}

func orUnknown(s string) string {
	if s == "" {
		return "an unknown number of"
	}
	return s
}

// distance counts the snapshots from one down to an ancestor.
func distance(t *icebergscan.Table, from, ancestor int64) (n int, known bool) {
	for id := from; id != 0 && n <= len(t.Snapshots); n++ {
		if id == ancestor {
			return n, true
		}
		s, err := t.Snapshot(id)
		if err != nil {
			return 0, false
		}
		id = s.ParentID
	}
	return 0, false
}

// lag says what the target branch has not yet got of its staging branch.
func lag(t *icebergscan.Table, target string) string {
	head, err := t.Head(target)
	if err != nil || head == nil {
		return "the branch does not exist"
	}
	for range t.Snapshots {
		s := head
		if mark := s.Summary[stagingMark]; mark != "" {
			return staged(t, mark)
		}
		next, err := t.Snapshot(s.ParentID)
		if err != nil {
			break
		}
		head = next
	}
	return "no commit on it has the mark of a conversion yet"
}

// staged says where the last converted snapshot lies below the heads of other branches.
func staged(t *icebergscan.Table, mark string) string {
	id, err := strconv.ParseInt(mark, 10, 64)
	if err != nil {
		return "its last mark " + strconv.Quote(mark) + " is no snapshot"
	}
	best, branch := -1, ""
	for name, ref := range t.Refs {
		if n, known := distance(t, ref.SnapshotID, id); known && ref.Type == "branch" && (n > best || n == best && name < branch) {
			best, branch = n, name
		}
	}
	if best < 0 {
		return fmt.Sprintf("the last converted snapshot %d is on no branch", id)
	}
	return fmt.Sprintf("converted up to snapshot %d; %d snapshots of branch %s wait", id, best, branch)
}
