package cli

import (
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/language"
	"github.com/rlinf/rlinf/roles/task"
)

// tasks are those that package roles gives to Main.
func tasks() task.Tasks {
	return task.Tasks{embodied.Task{}, language.FineTuning{}, language.Reasoning{}}
}
