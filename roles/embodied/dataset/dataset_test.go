package dataset

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/lerobot"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// mixed writes demonstrations with every type: images of one and three channels, matrices, choices in chunks, steps
// that are missing, and episodes that terminate, are cut off, or neither.
func mixed(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "demos.safetensors")
	fields := []tensor.Field{{Name: "observation.rgb", DType: tensor.U8, Shape: []int{4, 5, 3}},
		{Name: "observation.gray", DType: tensor.U8, Shape: []int{2, 3, 1}},
		{Name: "observation.states", DType: tensor.F32, Shape: []int{3}},
		{Name: "observation.matrix", DType: tensor.F32, Shape: []int{2, 3, 2}},
		{Name: "observation.one", DType: tensor.I32, Shape: []int{1}},
		{Name: "next_observation.rgb", DType: tensor.U8, Shape: []int{4, 5, 3}},
		{Name: "next_observation.states", DType: tensor.F32, Shape: []int{3}},
		{Name: "action", DType: tensor.I32, Shape: []int{2, 2}}, {Name: "reward", DType: tensor.F32},
		{Name: "terminated", DType: tensor.U8}, {Name: "truncated", DType: tensor.U8},
		{Name: "info.time", DType: tensor.F64, Shape: []int{1}}}
	lens := []int{5, 1, 4}
	h := algo.DemoHeader{Env: "Mixed-v0", Fields: fields, HasSuccess: true, SuccessRate: 2.0 / 3}
	for i, n := range lens {
		h.Episodes = append(h.Episodes, algo.DemoEpisode{Len: n, Return: float64(i) / 7, Success: i != 1,
			Instruction: strings.Repeat("é", i)})
	}
	at := 0
	test.OK(t, algo.WriteDemos(path, h, func(add func([]byte) error) error {
		for e, n := range lens {
			for k := range n {
				var row []byte
				for _, f := range fields {
					step := at
					if strings.HasPrefix(f.Name, "next_") && (k == n-1 || at != 2) { // a step is missing at 2
						step = at + 1
					}
					name := strings.TrimPrefix(f.Name, "next_")
					for i := range f.Bytes() / f.DType.Size() {
						x := len(name)*31 + step*7 + i*3 + 1
						switch {
						case name == "terminated":
							row = append(row, flag(k == n-1 && e == 0))
						case name == "truncated":
							row = append(row, flag(k == n-1 && e == 1))
						case f.DType == tensor.U8:
							row = append(row, byte(x))
						case f.DType == tensor.F32:
							row = binary.LittleEndian.AppendUint32(row, math.Float32bits(-1/float32(x)))
						case f.DType == tensor.I32:
							row = binary.LittleEndian.AppendUint32(row, uint32(-x))
						case f.DType == tensor.F64:
							row = binary.LittleEndian.AppendUint64(row, math.Float64bits(1/float64(x)))
						}
					}
				}
				if err := add(row); err != nil {
					return err
				}
				at++
			}
		}
		return nil
	}))
	return path
}

func fits(_, _ int64) error { return nil }

// TestRoundTrip: our file as a folder of LeRobot and back is the same file.
func TestRoundTrip(t *testing.T) {
	path := mixed(t)
	want, err := os.ReadFile(path)
	test.OK(t, err)
	for _, version := range []string{lerobot.V30, lerobot.V21} {
		dir, back := filepath.Join(t.TempDir(), "folder"), filepath.Join(t.TempDir(), "back.safetensors")
		test.OK(t, Export{Version: version, FPS: 30}.Write(path, dir))
		test.OK(t, Import(dir, back, nil))
		if got, err := os.ReadFile(back); err != nil || string(got) != string(want) {
			t.Errorf("%s: another file (%v)", version, err)
		}
		folder, err := lerobot.Open(dir)
		test.OK(t, err)
		if folder.FPS != 30 || folder.RobotType != "Mixed-v0" || len(folder.Episodes) != 3 {
			t.Errorf("%s: %+v", version, folder.Metadata)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".writing*")); left != nil {
			t.Errorf("left: %v", left)
		}
	}
}

// TestDuckDB: DuckDB reads our tables, and has the numbers of the demonstrations.
func TestDuckDB(t *testing.T) {
	modules := test.NodeModules("@duckdb/node-api")
	if modules == "" {
		t.Skip("no @duckdb/node-api: scripts/setup test")
	}
	dir := filepath.Join(t.TempDir(), "folder")
	test.OK(t, Export{Version: lerobot.V30, FPS: 30}.Write(mixed(t), dir))
	cmd := exec.Command("node", "testdata/read.mjs", dir)
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
	out, err := cmd.CombinedOutput()
	test.OK(t, err)
	want, err := os.ReadFile("testdata/read.txt")
	test.OK(t, err)
	if string(out) != string(want) {
		t.Errorf("DuckDB reads %s, expected %s", out, want)
	}
}

// TestImport: a folder of another program gives demonstrations whose ends, next observations and returns follow from
// its frames. The folder has five frames in two episodes: the first terminates, the second is cut off.
func TestImport(t *testing.T) {
	f := []tensor.Field{{Name: "observation.x", DType: tensor.F32, Shape: []int{1}},
		{Name: "action", DType: tensor.F32, Shape: []int{1, 1}}, {Name: "reward", DType: tensor.F32},
		{Name: "terminated", DType: tensor.U8}, {Name: "truncated", DType: tensor.U8}}
	path, dir := filepath.Join(t.TempDir(), "a.safetensors"), filepath.Join(t.TempDir(), "folder")
	h := algo.DemoHeader{Env: "E", Fields: f, Episodes: []algo.DemoEpisode{{Len: 2}, {Len: 3}}}
	test.OK(t, algo.WriteDemos(path, h, func(add func([]byte) error) error {
		for i := range 5 {
			var row []byte
			for _, x := range []float32{float32(i), 10 + float32(i), 100 + float32(i)} {
				row = binary.LittleEndian.AppendUint32(row, math.Float32bits(x))
			}
			if err := add(append(row, flag(i == 1), flag(i == 4))); err != nil {
				return err
			}
		}
		return nil
	}))
	test.OK(t, Export{Version: lerobot.V21, FPS: 1}.Write(path, dir))
	test.OK(t, os.Remove(filepath.Join(dir, headerFile))) // now it is a folder of another program
	want := map[string]string{"observation.x": "[0 1 2 3]", "next_observation.x": "[1 1 3 4]",
		"action": "[10 11 12 13]", "reward": "[100 101 102 103]", "terminated": "[0 1 0 0]", "truncated": "[0 0 0 1]"}
	rollout := func(name string, dtype tensor.DType, shape ...int) tensor.Field {
		return tensor.Field{Name: name, DType: dtype, Shape: append([]int{7, 2}, shape...)}
	}
	demos, _, err := Read(algo.DemoConfig{LoadPath: dir}, []tensor.Field{rollout("observation.x", tensor.F32, 1),
		rollout("next_observation.x", tensor.F32, 1), rollout("action", tensor.F32, 1, 1),
		rollout("reward", tensor.F32), rollout("terminated", tensor.U8), rollout("truncated", tensor.U8)}, nil, fits)
	test.OK(t, err)
	expect(t, demos, want)
	back := filepath.Join(t.TempDir(), "b.safetensors")
	test.OK(t, Import(dir, back, nil))
	b, err := os.ReadFile(back)
	test.OK(t, err)
	got, _, err := tensor.ReadSafetensors(b)
	test.OK(t, err)
	want["episode.length"], want["episode.return"] = "[2 2]", "[201 205]"
	expect(t, got, want)
}

// expect compares the numbers of tensors.
func expect(t *testing.T, got tensor.Dict, want map[string]string) {
	t.Helper()
	for name, want := range want {
		x := got.Must(name)
		if s := fmt.Sprint(numbersIn(x.Bytes(), x.DType())); s != want {
			t.Errorf("%s is %s, expected %s", name, s, want)
		}
	}
}

// TestNextImages: next observations share the images of observations, and are those of the next frame.
func TestNextImages(t *testing.T) {
	const dir = "../../cli/testdata/lerobot/"
	file, err := os.ReadFile(dir + "demos.safetensors")
	test.OK(t, err)
	want, _, err := tensor.ReadSafetensors(file)
	test.OK(t, err)
	var fields []tensor.Field
	for i := range want.Len() {
		if name, x := want.Entry(i); !strings.HasPrefix(name, "episode.") {
			fields = append(fields, tensor.Field{Name: name, DType: x.DType(), Shape: append([]int{1}, x.Shape()...)})
		}
	}
	obs := []env.Field{{Name: "text", Text: true}}
	got, pictures, err := Read(algo.DemoConfig{LoadPath: dir + "v30"}, fields, obs, fits)
	test.OK(t, err)
	ends, pixels := want.Must("terminated").U8(), make([]byte, 16*16*3)
	for _, name := range []string{"observation.image", "next_observation.image"} {
		for i, at := range got.Must(name).I32() {
			test.OK(t, pictures[name].Decode(pixels, int(at)))
			if ends[i] == 0 && !bytes.Equal(pixels, want.Must(name).At(i).Bytes()) {
				t.Errorf("%s of transition %d differs", name, i)
			}
		}
	}
	if a, b := pictures["observation.image"], pictures["next_observation.image"]; a != b || a.Bytes() == 0 {
		t.Errorf("next images are apart, or take %d bytes", a.Bytes())
	}
}

// TestDamaged: folders that are damaged, lie or are too large are refused, before they take memory.
func TestDamaged(t *testing.T) {
	const data = "data/chunk-000/file-000.parquet"
	whole, err := os.ReadFile("../../cli/testdata/lerobot/v30/" + data)
	test.OK(t, err)
	for _, c := range []struct{ file, old, new, want string }{
		{"meta/info.json", "", "", ""},
		{"meta/info.json", "data/chunk-{chunk_index:03d}", "../{chunk_index:03d}", "expected a path in the folder"},
		{"meta/info.json", "data/chunk-{chunk_index:03d}", "/x", "expected a path in the folder"},
		{"meta/info.json", "data/chunk-{chunk_index:03d}", "{chunk_index:999999999d}", "expected a path in the folder"},
		{"meta/info.json", `"total_frames": 17`, `"total_frames": 17000000`, "4 episodes of 17 frames: expected 4 of"},
		{"meta/info.json", `"action": {`, `"next.success": {"dtype": "bool", "shape": [1]}, "action": {`,
			data + ": no column next.success"},
		{"meta/info.json", `"next.reward": {`, `"observation.y": {"dtype": "float32", "shape": [3]}, "next.reward": {`,
			data + ": no column observation.y"},
		{"meta/info.json", "\"shape\": [\n                3\n", "\"shape\": [4\n",
			data + ":1: column action has 3 numbers: expected 4"},
		{"meta/info.json", "\"shape\": [\n                3\n", "\"shape\": [4000000000, 4000000000, 4\n",
			"meta/info.json: feature action is float32[4000000000 4000000000 4]: expected 1 to"},
		{"meta/info.json", "\"shape\": [\n                3\n", "\"shape\": [-1\n", "feature action is float32[-1]"},
		{"meta/info.json", "                16,\n                16,\n", "16,\n",
			"feature observation.images.image is image[16 3]"},
		{data, string(whole[100:140]), strings.Repeat("x", 40), data},
		{data, string(whole[len(whole)-400:]), string(whole[len(whole)-8:]), data},
	} {
		dir := filepath.Join(t.TempDir(), "folder")
		test.OK(t, os.CopyFS(dir, os.DirFS("../../cli/testdata/lerobot/v30")))
		b, err := os.ReadFile(filepath.Join(dir, c.file))
		test.OK(t, err)
		if !strings.Contains(string(b), c.old) {
			t.Fatalf("%s has no %s", c.file, c.old)
		}
		b = []byte(strings.Replace(string(b), c.old, c.new, 1))
		test.OK(t, os.WriteFile(filepath.Join(dir, c.file), b, 0o666))
		err = Import(dir, filepath.Join(t.TempDir(), "x.safetensors"), nil)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s in %s: %v, expected %s", c.new, c.old, c.file, err, c.want)
		}
	}
	fields := []tensor.Field{{Name: "observation.image", DType: tensor.U8, Shape: []int{1, 1, 16, 16, 3}},
		{Name: "terminated", DType: tensor.U8, Shape: []int{1, 1}}}
	asked := 0
	_, _, err = Read(algo.DemoConfig{LoadPath: "../../cli/testdata/lerobot/v30"}, fields, nil,
		func(tensors, images int64) error {
			if asked++; asked > 1 {
				return nil // the first time is before the images are read
			}
			if tensors != 17*(4+1+1) || images < 17*60 {
				t.Errorf("%d bytes of tensors, %d of images", tensors, images)
			}
			return errors.New("too large")
		})
	if err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("%v, expected too large", err)
	}
}
