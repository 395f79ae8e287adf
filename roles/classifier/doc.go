// Package classifier answers: how does a classifier of images learn what success looks like? It is the task sft with
// actor.model.model_type resnet. A Runner trains the classifier on files of frames, measures it on others, and ends
// with a table of thresholds. Environments then score images with it (package reward).
package classifier
