package runfolder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rlinf/rlinf/internal/durable"
)

const (
	lockFile  = "lock"
	claimFile = "lock.claim"

	beat  = 15 * time.Second // interval between renewals of a lock
	stale = 60 * time.Second // age at which a lock counts as abandoned
)

// An Owner describes the job that holds a lock. The modification time of the lock file is the job's heartbeat. Other
// jobs compare it with the time of a new file in the same folder, because both come from the file system's clock.
type Owner struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	PIDs    string    `json:"pids"`          // PID namespace of the host, or of a container on it
	Job     string    `json:"job,omitempty"` // the scheduler's name of the job
	Started time.Time `json:"started"`
	Born    string    `json:"born,omitempty"` // start of the process in clock ticks since boot; "" if unknown
}

// self returns the Owner for this process.
func self(job string) (Owner, error) {
	host, err := os.Hostname()
	if err != nil {
		return Owner{}, err
	}
	pids, _ := os.Readlink("/proc/self/ns/pid") // "" without PID namespaces
	_, born := processStat(os.Getpid())
	return Owner{host, os.Getpid(), pids, job, time.Now().Round(time.Second), born}, nil
}

// processStat returns the state and the start time of a process on this host, or "" if they are unknown. State Z is a
// zombie: a dead process for which its parent has not waited. Zombies remain in containers without an init process.
func processStat(pid int) (state, born string) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return "", ""
	}
	return fields[0], fields[19] // field 22 in proc(5)
}

// isVisible reports whether this process can see the process of o. self is the Owner for this process.
func (o Owner) isVisible(self Owner) bool { return o.Host == self.Host && o.PIDs == self.PIDs }

// isDead reports whether the process of o is known to be dead. It returns false if this process cannot see the process
// of o. A new process may have the same PID, but not the same start time.
func (o Owner) isDead(self Owner) bool {
	if !o.isVisible(self) {
		return false
	}
	if o.PID <= 0 || errors.Is(syscall.Kill(o.PID, 0), syscall.ESRCH) {
		return true
	}
	state, born := processStat(o.PID)
	return state == "Z" || o.Born != "" && born != "" && o.Born != born
}

// String describes the job.
func (o Owner) String() string {
	s := fmt.Sprintf("process %d on %s, started %s", o.PID, o.Host, o.Started.Local().Format("2006-01-02 15:04:05"))
	if o.Job != "" {
		s = "job " + o.Job + ", " + s
	}
	return s
}

// A BusyError reports that another job holds the lock of the folder.
type BusyError struct {
	Folder string
	Owner  Owner
	Beat   time.Duration // time since the last heartbeat; < 0 if the heartbeat is in the future
}

func (e *BusyError) Error() string {
	if e.Owner.PID == 0 {
		return fmt.Sprintf("run folder %s: another job is about to use it", e.Folder)
	}
	return fmt.Sprintf("run folder %s: in use by %v (last sign of life %v ago); wait for it, or choose another "+
		"runner.logger.experiment_name", e.Folder, e.Owner, max(e.Beat, 0).Round(time.Second))
}

// A lock is a file in the run folder. The process that made the present file holds the lock. The operating system's own
// locks are not used, because on many parallel file systems they do not work across nodes.
type lock struct {
	path string
	file *os.File
	text []byte
}

// acquire takes the lock of folder for this process.
//
// A job may take a lock only while it holds the claim, a short-lived file that only one job can create. So two jobs
// that find a stale lock cannot both replace it. If the creator of a claim dies, the claim becomes stale like a lock.
func acquire(folder, job string) (*lock, error) {
	me, err := self(job)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(me)
	if err != nil {
		return nil, err
	}
	claim, err := makeClaim(folder, me, text)
	if err != nil {
		return nil, err
	}
	l := &lock{filepath.Join(folder, lockFile), claim, text}
	present, err := claim.Stat()
	if err == nil {
		err = checkStale(l.path, me, present.ModTime())
	}
	if err != nil {
		return nil, errors.Join(err, claim.Close(), os.Remove(claim.Name()))
	}
	err = os.Rename(claim.Name(), l.path)
	if err == nil {
		err = l.checkHeld() // fails if another job has replaced this claim as stale
	}
	if err != nil {
		return nil, errors.Join(err, claim.Close())
	}
	return l, nil
}

// makeClaim creates the claim. It removes a stale claim first.
func makeClaim(folder string, me Owner, text []byte) (*os.File, error) {
	path := filepath.Join(folder, claimFile)
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if err == nil {
			if _, err := f.Write(text); err != nil {
				return nil, errors.Join(err, f.Close(), os.Remove(path))
			}
			return f, nil
		}
		if !os.IsExist(err) {
			return nil, err
		}
		now, err := clock(folder)
		if err == nil {
			err = checkStale(path, me, now)
		}
		if err != nil {
			return nil, err
		}
		if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
			return nil, err
		}
	}
}

// clock returns the current time of the file system of folder.
func clock(folder string) (time.Time, error) {
	probe, err := os.CreateTemp(folder, ".clock-")
	if err != nil {
		return time.Time{}, err
	}
	info, err := probe.Stat()
	if err := errors.Join(err, probe.Close(), os.Remove(probe.Name())); err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// hasOwner reports whether a living job holds the lock of folder. If this process cannot write to folder, it uses the
// clock of this host instead of the file system's clock.
func hasOwner(folder string) (bool, error) {
	me, err := self("")
	if err != nil {
		return false, err
	}
	now, err := clock(folder)
	if err != nil {
		now = time.Now()
	}
	err = checkStale(filepath.Join(folder, lockFile), me, now)
	if _, busy := errors.AsType[*BusyError](err); busy {
		return true, nil
	}
	return false, err
}

// checkStale returns a *BusyError if the owner of the lock or claim at path is alive. now is the file system's time. An
// owner is alive if its heartbeat is recent and its process is not known to be dead. A heartbeat in the future means
// that the clock was set back. Then the owner counts as alive only if this process can see the owner's process. Without
// a file there is no owner.
func checkStale(path string, me Owner, now time.Time) error {
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	text, err := durable.ReadFile(path)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	age := now.Sub(info.ModTime())
	if age > stale {
		return nil
	}
	busy := &BusyError{Folder: filepath.Dir(path), Beat: age}
	known := json.Unmarshal(text, &busy.Owner) == nil
	if known && busy.Owner.isDead(me) || age < -stale && !(known && busy.Owner.isVisible(me)) {
		return nil
	}
	return busy
}

// errLost is the cause of errors about a lock that this process has lost.
var errLost = errors.New("lock lost")

// KeepAlive renews the lock until ctx ends, and then returns nil. It returns an error if it could not renew the lock
// for a minute, or if the lock was removed or taken by another job.
func (f *Folder) KeepAlive(ctx context.Context) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	for renewed := time.Now(); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			err := f.lock.renew()
			if err == nil {
				renewed = time.Now()
			} else if errors.Is(err, errLost) || time.Since(renewed) >= stale {
				return fmt.Errorf("run folder %s: %w", f.path, err)
			}
		}
	}
}

// renew rewrites the lock file. This sets the file's time to the time of the file system's clock.
func (l *lock) renew() error {
	if err := l.checkHeld(); err != nil {
		return err
	}
	_, err := l.file.WriteAt(l.text, 0)
	return err
}

// checkHeld returns an error unless the lock file is still the file that this process made.
func (l *lock) checkHeld() error {
	mine, err := l.file.Stat()
	if err != nil {
		return err
	}
	current, err := os.Stat(l.path)
	if os.IsNotExist(err) {
		return fmt.Errorf("%w: the file %s is gone", errLost, lockFile)
	} else if err != nil {
		return err
	}
	if !os.SameFile(mine, current) {
		var other Owner
		if text, err := durable.ReadFile(l.path); err == nil && json.Unmarshal(text, &other) == nil {
			return fmt.Errorf("%w: taken over by %v", errLost, other)
		}
		return fmt.Errorf("%w: taken over by another job", errLost)
	}
	return nil
}

func (l *lock) release() error {
	err := l.checkHeld()
	if err == nil {
		err = os.Remove(l.path)
	}
	if err := errors.Join(err, l.file.Close()); err != nil {
		return fmt.Errorf("run folder: unlock: %w", err)
	}
	return nil
}
