package worker

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/roles/language/deal"
)

// TestAnswerWords: answers come out of words as they went in, and words that are cut off are refused.
func TestAnswerWords(t *testing.T) {
	want := []deal.Answer{
		{Group: 3, Sample: 1, Collector: 2},
		{Group: 1 << 20, Sample: 7, Result: engine.Result{Tokens: []int32{5, 0, 1 << 30},
			LogProbs: []float32{-0.5, 0, -1e-30}, Stopped: true}},
		{Collector: 9, Result: engine.Result{Tokens: []int32{4}, LogProbs: []float32{-7}}},
	}
	var words []int32
	for i := range want {
		words = appendAnswer(words, &want[i])
	}
	rest := words
	for i := range want {
		var got deal.Answer
		var err error
		if got, rest, err = readAnswer(rest); err != nil {
			t.Fatal(err)
		}
		if len(got.Tokens) == 0 {
			got.Result = engine.Result{}
		}
		if !reflect.DeepEqual(got, want[i]) {
			t.Errorf("%+v, expected %+v", got, want[i])
		}
	}
	if len(rest) != 0 {
		t.Errorf("%d words are left", len(rest))
	}
	last := words[len(words)-answerWords-2:]
	for n := range last {
		if _, _, err := readAnswer(last[:n]); err == nil || !strings.Contains(err.Error(), "an answer of") {
			t.Errorf("%d words: %v", n, err)
		}
	}
}
