#include <sys/timerfd.h>
#include <time.h>
#include <stdio.h>
#include <stdint.h>
static double now(){struct timespec t;clock_gettime(CLOCK_MONOTONIC,&t);return t.tv_sec*1e9+t.tv_nsec;}
int main(){int f=timerfd_create(CLOCK_MONOTONIC,0);struct itimerspec a={{0,0},{0,500000}},z={{0,0},{0,0}},far={{0,0},{1000,0}};
for(int r=0;r<5;r++){int n=200000;double b=now();for(int i=0;i<n;i++){timerfd_settime(f,0,&a,0);timerfd_settime(f,0,&z,0);}double t1=(now()-b)/n;
b=now();for(int i=0;i<n;i++){timerfd_settime(f,0,&far,0);timerfd_settime(f,0,&z,0);}double t2=(now()-b)/n;
printf("armed as the next event and cancelled %.0f ns, as a later one %.0f ns\n",t1,t2);}}
