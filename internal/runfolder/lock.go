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
	clockFile = ".clock-" // prefix of the files of clock

	// Heartbeat is the usual interval between renewals of a lock.
	Heartbeat = 15 * time.Second
	// stale is the age at which a lock counts as abandoned if nobody can see the process of its owner.
	stale = 60 * time.Second
)

// An Owner describes the job that holds a lock. The modification time of the lock file is the job's heartbeat. Other
// jobs compare it with the time of a new file in the same folder, because both come from the file system's clock.
type Owner struct {
	Host    string    `json:"host"`
	PID     int       `json:"pid"`
	Boot    string    `json:"boot,omitempty"` // identifies the boot of the host; hosts may have the same name
	PIDs    string    `json:"pids"`           // PID namespace of the host, or of a container on it
	Job     string    `json:"job,omitempty"`  // the scheduler's name of the job
	Started time.Time `json:"started"`
	Born    string    `json:"born,omitempty"` // start of the process in clock ticks since boot; "" if unknown
}

// self returns the Owner for this process.
func self(job string) (Owner, error) {
	host, err := os.Hostname()
	if err != nil {
		return Owner{}, err
	}
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // none on other systems
	pids, _ := os.Readlink("/proc/self/ns/pid")               // "" without PID namespaces
	_, born := processStat(os.Getpid())
	return Owner{host, os.Getpid(), string(bytes.TrimSpace(boot)), pids, job, time.Now().Round(time.Second), born}, nil
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

// A sight is what this process can see of the process of an Owner.
type sight int

const (
	elsewhere sight = iota // on another host, or in another PID namespace
	here                   // perhaps alive: a process has its PID, but its start time is unknown
	alive                  // it has the PID and the start time of the owner
	dead
)

// look looks for the process of o. self is the Owner for this process. A new process may have the PID of a dead one,
// but not its start time.
func (o Owner) look(self Owner) sight {
	if o.Host != self.Host || o.PIDs != self.PIDs || o.Boot != self.Boot {
		return elsewhere
	}
	if o.PID <= 0 || errors.Is(syscall.Kill(o.PID, 0), syscall.ESRCH) {
		return dead
	}
	switch state, born := processStat(o.PID); {
	case state == "Z" || o.Born != "" && born != "" && o.Born != born:
		return dead
	case o.Born == "" || born == "":
		return here
	}
	return alive
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
	Alive  bool          // this process sees the owner's process, which is on this host
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

	stop  func()        // ends KeepAlive, and waits for its goroutine
	ended chan struct{} // closed at the end of that goroutine
	lost  error         // why the lock is lost, or nil; valid when ended is closed
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
	l := &lock{path: filepath.Join(folder, lockFile), file: claim, text: text, stop: func() {}}
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
	probe, err := os.CreateTemp(folder, clockFile)
	if err != nil {
		return time.Time{}, err
	}
	info, err := probe.Stat()
	if err := errors.Join(err, probe.Close(), os.Remove(probe.Name())); err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}

// Held reports whether a living job holds the lock of folder. Any process may call it. If this process cannot write to
// folder, it uses the clock of this host instead of the file system's clock.
func Held(folder string) (bool, error) {
	lock := filepath.Join(folder, lockFile)
	if _, err := os.Stat(lock); os.IsNotExist(err) {
		return false, nil // without a file for the time
	}
	me, err := self("")
	if err != nil {
		return false, err
	}
	now, err := clock(folder)
	if err != nil {
		now = time.Now()
	}
	err = checkStale(lock, me, now)
	if _, busy := errors.AsType[*BusyError](err); busy {
		return true, nil
	}
	return false, err
}

// checkStale returns a *BusyError if the owner of the lock or claim at path is alive. The argument now is the file
// system's time. If this process sees the owner's process, the heartbeat does not matter: a job may be stopped for
// long, or the disk may be slow. Otherwise an owner is alive if its heartbeat is recent. A heartbeat in the future
// means that the clock was set back. Then the owner counts as alive only if it is on this host. Without a file there is
// no owner.
func checkStale(path string, me Owner, now time.Time) error {
	info, err := os.Stat(path)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	text, err := durable.ReadFile(path, durable.Note)
	if os.IsNotExist(err) {
		return nil
	} else if err != nil {
		return err
	}
	busy := &BusyError{Folder: filepath.Dir(path), Beat: now.Sub(info.ModTime())}
	seen := elsewhere
	if json.Unmarshal(text, &busy.Owner) == nil {
		seen = busy.Owner.look(me)
	}
	busy.Alive = seen == alive
	switch {
	case busy.Alive:
		return busy
	case seen == dead || busy.Beat > stale || busy.Beat < -stale && seen == elsewhere:
		return nil
	}
	return busy
}

// errLost is the cause of errors about a lock that this process has lost.
var errLost = errors.New("lock lost")

// KeepAlive renews the lock at once and at each interval until Close. It may be called once.
func (f *Folder) KeepAlive(interval time.Duration) {
	l := f.lock
	ctx, cancel := context.WithCancel(context.Background())
	l.ended = make(chan struct{})
	l.stop = func() {
		cancel()
		<-l.ended
	}
	go func() {
		defer close(l.ended)
		l.lost = l.keep(ctx, interval)
	}()
}

// Lost waits until ctx ends, and then returns nil. It returns an error if KeepAlive could not renew the lock for a
// minute, or if the lock was removed or taken by another job. Any goroutine may call it after KeepAlive.
func (f *Folder) Lost(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-f.lock.ended:
		if err := f.lock.lost; err != nil {
			return fmt.Errorf("run folder %s: %w", f.path, err)
		}
	}
	return nil
}

// keep renews the lock until ctx ends. It returns an error if the lock is lost.
func (l *lock) keep(ctx context.Context, interval time.Duration) error {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for renewed := time.Now(); ; {
		err := l.renew()
		if err == nil {
			renewed = time.Now()
		} else if errors.Is(err, errLost) || time.Since(renewed) >= stale {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
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
		if text, err := durable.ReadFile(l.path, durable.Note); err == nil && json.Unmarshal(text, &other) == nil {
			return fmt.Errorf("%w: taken over by %v", errLost, other)
		}
		return fmt.Errorf("%w: taken over by another job", errLost)
	}
	return nil
}

func (l *lock) release() error {
	l.stop()
	err := l.checkHeld()
	if err == nil {
		err = os.Remove(l.path)
	}
	if err := errors.Join(err, l.file.Close()); err != nil {
		return fmt.Errorf("run folder: unlock: %w", err)
	}
	return nil
}
