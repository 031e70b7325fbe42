/* doctor.h -- the command `spolia doctor`: the only header of doctor/ that cmd/ may include. */
#ifndef SP_DOCTOR_H
#define SP_DOCTOR_H

int doctor_main(int argc, char **argv);

#endif
