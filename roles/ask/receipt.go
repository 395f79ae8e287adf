package ask

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/runfolder"
)

// A Receipt says which stretches of a run were repeated, and how the run looked then. Check finds what was changed
// since. Hashes are SHA-256, in hexadecimal.
type Receipt struct {
	Format  string          `json:"format"` // receiptFormat
	Run     string          `json:"run"`
	Build   runfolder.Build `json:"build"`  // of the program that repeated the stretches
	Config  string          `json:"config"` // the text of config.yaml
	Last    int64           `json:"last"`   // the last step with metrics
	Results []Result        `json:"results"`
	// Metrics has the hash of metrics.jsonl as far as step Last, and the hash of each metric's values.
	Metrics Hashes `json:"metrics"`
	// Checkpoints has the hashes of each checkpoint. Files are its files. Parts are its tensors, named "FILE: TENSOR".
	Checkpoints map[string]Hashes `json:"checkpoints"`
}

// Hashes are hashes of files and of their parts, by name.
type Hashes struct {
	Files map[string]string `json:"files"`
	Parts map[string]string `json:"parts"`
}

const receiptFormat = "rlinf receipt 1"

// IsReceipt reports whether a file that begins with head is a receipt.
func IsReceipt(head []byte) bool {
	const begin = "{\n  \"format\": \"" + receiptFormat + "\""
	return len(head) >= len(begin) && string(head[:len(begin)]) == begin
}

// NewReceipt returns the receipt of r with these results.
func NewReceipt(r *Run, results []Result) (*Receipt, error) {
	config, err := os.ReadFile(filepath.Join(r.Dir, "config.yaml"))
	if err != nil {
		return nil, err
	}
	x := &Receipt{Format: receiptFormat, Run: filepath.Base(r.Dir), Build: runfolder.ReadBuild(),
		Config: string(config), Last: r.Last, Results: results}
	x.Metrics, x.Checkpoints, err = r.hashes(r.Last)
	return x, err
}

// hashes returns the hashes of the metrics as far as step last, and of the checkpoints.
func (r *Run) hashes(last int64) (m Hashes, checkpoints map[string]Hashes, err error) {
	if m, err = hashMetrics(r.metrics(), last); err != nil {
		return m, nil, err
	}
	checkpoints = map[string]Hashes{}
	for _, s := range r.States[1:] {
		h := Hashes{map[string]string{}, map[string]string{}}
		for _, name := range append(s.Checkpoint.Files(), "manifest.json") {
			if err := hashFile(h, s.Checkpoint.Dir, name); err != nil {
				return m, nil, err
			}
		}
		checkpoints[filepath.Base(s.Checkpoint.Dir)] = h
	}
	return m, checkpoints, nil
}

func hashMetrics(path string, last int64) (Hashes, error) {
	h := Hashes{map[string]string{}, map[string]string{}}
	whole, columns := sha256.New(), map[string]hash.Hash{}
	_, err := metrics.ReadLines(path, 0, func(line []byte, _ int64) error {
		if step := metrics.Number(line, "step"); step <= float64(last) {
			whole.Write(line)
		}
		return nil
	})
	if err != nil {
		return h, err
	}
	texts, err := metrics.ReadTexts(path, 1, last)
	if err != nil {
		return h, err
	}
	for _, step := range slices.Sorted(maps.Keys(texts)) {
		for name, text := range texts[step] {
			if columns[name] == nil {
				columns[name] = sha256.New()
			}
			fmt.Fprintf(columns[name], "%d %s\n", step, text)
		}
	}
	h.Files["metrics.jsonl"] = sum(whole)
	for name, column := range columns {
		h.Parts[name] = sum(column)
	}
	return h, nil
}

// hashFile adds the hash of a file of a checkpoint to h, and the hashes of its tensors.
func hashFile(h Hashes, dir, name string) error {
	path := filepath.Join(dir, name)
	f, err := durable.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	whole := sha256.New()
	if _, err := io.Copy(whole, f); err != nil {
		return err
	}
	h.Files[name] = sum(whole)
	if filepath.Ext(name) != ".safetensors" {
		return nil
	}
	tensors, err := checkpoint.OpenTensors(path)
	if err != nil {
		return err
	}
	defer tensors.Close()
	for i, field := range tensors.Fields {
		part := sha256.New()
		err := tensors.EachPiece(i, func(piece []byte) error {
			part.Write(piece)
			return nil
		})
		if err != nil {
			return err
		}
		h.Parts[name+": "+field.Name] = sum(part)
	}
	return nil
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// Write writes the receipt to a file.
func (x *Receipt) Write(path string) error {
	text, err := json.MarshalIndent(x, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(path, append(text, '\n'))
}

// ReadReceipt reads the receipt at path.
func ReadReceipt(path string) (*Receipt, error) {
	text, err := durable.ReadFile(path, durable.Text)
	if err != nil {
		return nil, err
	}
	var x Receipt
	if err := json.Unmarshal(text, &x); err != nil || x.Format != receiptFormat {
		return nil, fmt.Errorf("%s: expected a receipt, the file that rlinf verify writes", path)
	}
	return &x, nil
}

// Check returns what was changed in r since the receipt was written. The run may have made more steps, and more
// checkpoints.
func (x *Receipt) Check(r *Run) (changed []string, err error) {
	now, err := os.ReadFile(filepath.Join(r.Dir, "config.yaml"))
	if err != nil {
		return nil, err
	}
	keys, err := checkpoint.CompareConfigs([]byte(x.Config), now)
	if err != nil {
		return nil, fmt.Errorf("config.yaml: %w", err)
	}
	for _, d := range keys {
		changed = append(changed, fmt.Sprintf("config.yaml: %s: %s then, %s now", d.Key, d.Then, d.Now))
	}
	if len(keys) == 0 && x.Config != string(now) {
		changed = append(changed, "config.yaml: other text, equal values")
	}
	m, checkpoints, err := r.hashes(x.Last)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	changed = append(changed, x.Metrics.changed(m, "")...)
	for _, name := range slices.Sorted(maps.Keys(x.Checkpoints)) {
		if there, ok := checkpoints[name]; ok {
			changed = append(changed, x.Checkpoints[name].changed(there, "checkpoints/"+name+"/")...)
		} else {
			changed = append(changed, "checkpoints/"+name+": missing")
		}
	}
	return changed, nil
}

// changed compares h with the present hashes, now. It returns the parts that differ, and the files that differ although
// no part of them does.
func (h Hashes) changed(now Hashes, prefix string) (all []string) {
	for _, file := range slices.Sorted(maps.Keys(h.Files)) {
		switch {
		case now.Files[file] == h.Files[file]:
		case now.Files[file] == "":
			all = append(all, prefix+file+": missing")
		default:
			all = append(all, prefix+file+": changed")
		}
	}
	parts := maps.Clone(h.Parts)
	maps.Copy(parts, now.Parts)
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		if now.Parts[part] != h.Parts[part] {
			all = append(all, prefix+part+": changed")
		}
	}
	return all
}
