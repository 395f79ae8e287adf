package checkpoint_test

import (
	"fmt"
	"log"
	"os"

	"github.com/rlinf/rlinf/internal/checkpoint"
)

// A store keeps the two newest checkpoints. The newest one that is whole counts: here somebody has damaged the last.
func ExampleStore_Newest() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	store, err := checkpoint.Open(dir, 2)
	if err != nil {
		log.Fatal(err)
	}
	var saved string
	for step := range int64(3) {
		info := checkpoint.Info{Step: step, Ranks: 4, Config: []byte("runner: {max_steps: 3}\n")}
		saved, err = store.Save(info, checkpoint.BytesFile("counter", fmt.Appendf(nil, "%d updates", step)))
		if err != nil {
			log.Fatal(err)
		}
	}
	if err := os.WriteFile(saved+"/counter", []byte("9 updates"), 0o666); err != nil {
		log.Fatal(err)
	}

	newest, rejected, err := store.Newest()
	if err != nil {
		log.Fatal(err)
	}
	state, err := newest.Read("counter")
	fmt.Println("step", newest.Step, "of", newest.Ranks, "ranks:", newest.Files(), string(state), err)
	fmt.Println("rejected:", len(rejected))
	// Output:
	// step 1 of 4 ranks: [config.yaml counter] 1 updates <nil>
	// rejected: 1
}
