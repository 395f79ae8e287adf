package cli

import (
	"github.com/rlinf/rlinf/roles/classifier"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/language"
	"github.com/rlinf/rlinf/roles/task"
)

// tasks are the tasks that package roles gives to Run.
func tasks() task.Tasks {
	return task.Tasks{embodied.Task{}, classifier.Task{}, language.FineTuning{}, language.Reasoning{}}
}
