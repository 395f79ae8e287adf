package trace

import (
	"encoding/json"
	"time"

	"github.com/rlinf/rlinf/internal/durable"
)

// LiveFile is the name of Live's file in a run's folder.
const LiveFile = "live.json"

// Live is the state of a run in progress. Rank 0 writes it to live.json each second.
type Live struct {
	Time   time.Time `json:"time"`   // when the file was written
	Step   int64     `json:"step"`   // iterations made
	Work   string    `json:"work"`   // the present phase, in words
	Phases []Timing  `json:"phases"` // times of the slowest rank in the newest iteration
	Ranks  []Waiting `json:"ranks"`  // the waits of every rank in its newest iteration
	Queues []Queue   `json:"queues"` // the channels
}

// A Timing is the time of a phase.
type Timing struct {
	Phase   string    `json:"phase"` // a name of loop.Phases, or loop.Simulate
	Seconds float64   `json:"seconds"`
	At      time.Time `json:"at"` // when rank 0 received the time
}

// Waiting has the waits of a rank's workers in an iteration.
type Waiting struct {
	Rank  int               `json:"rank"`
	Waits map[Cause]float64 `json:"waits"` // share of the workers' time, from 0 to 1, by cause
	At    time.Time         `json:"at"`
}

// Queue has the number of items in a channel, over all its keys, at the end of an iteration.
type Queue struct {
	Channel string    `json:"channel"`
	Items   int64     `json:"items"`
	At      time.Time `json:"at"`
}

// Write writes l to the file at path. It replaces an older file.
func (l *Live) Write(path string) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return durable.WriteFile(path, append(text, '\n'))
}

// ReadLive reads live.json.
func ReadLive(path string) (l Live, err error) {
	text, err := durable.ReadFile(path, durable.Text)
	if err != nil {
		return l, err
	}
	return l, json.Unmarshal(text, &l)
}
