package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// TestForeignFolder: a job whose run folder would be a folder with other files is refused, and none of them is moved.
func TestForeignFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	boat := filepath.Join(dir, "boat")
	test.OK(t, os.Mkdir(boat, 0o777))
	writeFile(t, boat, "boat.yaml", good)
	writeFile(t, boat, "boat.py", "")
	for _, more := range [][]string{nil, {"--resume", "auto"}, {"runner.val_check_interval=1",
		"env.eval.video_cfg={save_video: true, video_base_dir: boat/films}"}} {
		args := append([]string{"-c", "boat/boat.yaml", "runner.logger.log_path=."}, more...)
		refused(t, local, dir, 0, "%runner.logger.experiment_name: boat%: expected another name: run folder "+boat+
			`: holds other files ("boat.py", "boat.yaml"), expected the folder of a run, or an empty one; choose `+
			"another runner.logger.experiment_name or runner.logger.log_path", args...)
	}
	// Films may be in the folder of a new run.
	local.ok(t, dir, 0, "-c", "boat/boat.yaml", "runner.max_steps=1", "runner.val_check_interval=1",
		"env.eval.video_cfg={save_video: true, video_base_dir: logs/boat/films}")
}

// TestBusyFolder starts a job in the folder of another job, for which this test stands.
func TestBusyFolder(t *testing.T) {
	t.Parallel()
	for _, p := range platforms {
		t.Run(p.name, func(t *testing.T) {
			dir := t.TempDir()
			writeFile(t, dir, "job.yaml", good)
			path := filepath.Join(dir, "logs", "job")
			first := test.Must(runfolder.Open(path, "1234"))(t)
			defer first.Close()
			np := 2
			if p == local {
				np = 0
			}
			calls := []string{"-c job.yaml", "-c job.yaml --resume auto"}
			if p != local {
				calls = calls[:1]
			}
			for _, args := range calls {
				refused(t, p, dir, np, "run folder "+path+
					": in use by job 1234, process % on %, started % (last sign of life % ago); wait for it, "+
					"or choose another runner.logger.experiment_name", strings.Fields(args)...)
			}
			if p == local {
				p.ok(t, dir, np, "-c", "job.yaml", "runner.logger.experiment_name=another")
			}
		})
	}
}
