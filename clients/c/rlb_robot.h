/*
 * rlb_robot.h is the clock of a robot: it commands at a fixed rate, from a thread of its own, and stops by itself.
 *
 * Compile rlb_robot.c into the program, with -pthread. It needs POSIX, and works with rlb.h or without it.
 *
 *	rlb_robot *robot = rlb_robot_start(&(rlb_clock){.period = 0.1, .size = sizeof action, .command = command,
 *	                                                .stop = stop, .user = &arm});
 *	while ((going = rlb_recv_action(r, action)) == 1) {
 *		rlb_info(r, 0, rlb_robot_act(robot, action));
 *		observe(&arm, state);
 *		rlb_send_state(r, state, reward(state));
 *	}
 *	rlb_robot_close(robot);
 *
 * Set spec.period to the same period.
 */
#ifndef RLB_ROBOT_H
#define RLB_ROBOT_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An rlb_clock says how a robot is commanded. command and stop are never called at the same time. */
typedef struct {
	double period;       /* seconds between two commands, at least 0.001 */
	size_t size;         /* bytes of an action */
	int (*command)(void *user, const void *action); /* sends an action to the robot; -1 if that failed, else 0 */
	void (*stop)(void *user);                       /* brings the robot to rest */
	void *user;
	int hold;            /* periods without a new action after which the robot is stopped; 0: 3 */
	int is_virtual;      /* 1: no thread and no waits: time passes in rlb_robot_act and rlb_robot_idle alone */
} rlb_clock;

typedef struct rlb_robot rlb_robot;

/* rlb_robot_start starts the clock; the robot rests. stop is called by rlb_robot_close, after hold periods without an
 * action, after a failure of command, at the end of the program by exit, and at SIGTERM, which then ends the program.
 * It returns NULL if an argument is wrong, if there is no memory, or if 16 robots are running. */
rlb_robot *rlb_robot_start(const rlb_clock *clock);

/* rlb_robot_act commands an action at once, and returns when the period is over. The thread repeats the action every
 * period. It returns 1 if the action came after the end of the period before, else 0; -1 if the robot is stopped for
 * good, because of a failure of command or of SIGTERM. */
int rlb_robot_act(rlb_robot *r, const void *action);

/* rlb_robot_idle lets time pass without a new action, on a virtual clock. */
void rlb_robot_idle(rlb_robot *r, int periods);

/* rlb_robot_pause stops the robot until the next rlb_robot_act, as before a reset by hand. */
void rlb_robot_pause(rlb_robot *r);

/* rlb_robot_close stops the robot for good, and frees r, which may be NULL. */
void rlb_robot_close(rlb_robot *r);

#ifdef __cplusplus
}
#endif

#endif
