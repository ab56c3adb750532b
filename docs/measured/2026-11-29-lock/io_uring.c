#define _GNU_SOURCE
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>
#include <pthread.h>
#include <time.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
static double cpu(clockid_t c){struct timespec t;clock_gettime(c,&t);return t.tv_sec*1e6+t.tv_nsec/1e3;}
static void ring_init(struct io_uring*r){struct io_uring_params p={0};p.flags=IORING_SETUP_SINGLE_ISSUER|IORING_SETUP_DEFER_TASKRUN|IORING_SETUP_TASKRUN_FLAG; int e=io_uring_queue_init_params(256,r,&p); if(e){fprintf(stderr,"ring %d\n",e);exit(1);} }
#define FAIL(x) do{ if((x)<0){perror(#x);exit(1);} }while(0)
static int use_msg, N; static int fds[2], efd[2]; static pthread_barrier_t bar; static double tc[2];
static void* wk(void*a){int me=(long)a; struct io_uring r; ring_init(&r); fds[me]=r.ring_fd; pthread_barrier_wait(&bar);
 struct io_uring_sqe*s; struct io_uring_cqe*c; uint64_t v=1;
 if(!use_msg){s=io_uring_get_sqe(&r);io_uring_prep_poll_add(s,efd[me],POLLIN);io_uring_submit(&r);}
 pthread_barrier_wait(&bar); double t0=cpu(CLOCK_THREAD_CPUTIME_ID);
 for(int i=0;i<N;i++){ 
  if(me==0){ if(use_msg){s=io_uring_get_sqe(&r);io_uring_prep_msg_ring(s,fds[1],0,7,0);s->flags|=IOSQE_CQE_SKIP_SUCCESS;} else FAIL(write(efd[1],&v,8)); }
  int e=io_uring_submit_and_wait(&r,1); if(e<0&&e!=-EINTR){fprintf(stderr,"wait %d\n",e);exit(1);} if(io_uring_peek_cqe(&r,&c)==0){io_uring_cqe_seen(&r,c);} 
  if(!use_msg){ FAIL(read(efd[me],&v,8)); v=1; s=io_uring_get_sqe(&r);io_uring_prep_poll_add(s,efd[me],POLLIN);}
  if(me==1){ if(use_msg){s=io_uring_get_sqe(&r);io_uring_prep_msg_ring(s,fds[0],0,7,0);s->flags|=IOSQE_CQE_SKIP_SUCCESS; if(i==N-1)io_uring_submit(&r);} else FAIL(write(efd[0],&v,8)); }
 } tc[me]=cpu(CLOCK_THREAD_CPUTIME_ID)-t0; pthread_barrier_wait(&bar); io_uring_queue_exit(&r); return 0;}
static void wake(void){ double best[2]={1e9,1e9},bw[2]={1e9,1e9}; N=4000; for(int round=0;round<10;round++) for(use_msg=0;use_msg<2;use_msg++){ efd[0]=eventfd(0,0);efd[1]=eventfd(0,0); pthread_barrier_init(&bar,0,2); pthread_t t[2]; double w0=cpu(CLOCK_MONOTONIC); for(long i=0;i<2;i++)pthread_create(&t[i],0,wk,(void*)i); for(int i=0;i<2;i++)pthread_join(t[i],0); double w=(cpu(CLOCK_MONOTONIC)-w0)/N/2, c=(tc[0]+tc[1])/N/2; if(c<best[use_msg])best[use_msg]=c; if(w<bw[use_msg])bw[use_msg]=w; close(efd[0]);close(efd[1]);}
 printf("wake: eventfd+poll+read %.2f us cpu, %.2f us wall; MSG_RING %.2f us cpu, %.2f us wall\n",best[0],bw[0],best[1],bw[1]); }
/* SEND_ZC */
static void*drain(void*a){int fd=(long)a; char*b=malloc(1<<20); while(read(fd,b,1<<20)>0); return 0;}
static void zc(void){ int l=socket(AF_INET,SOCK_STREAM,0); struct sockaddr_in sa={.sin_family=AF_INET,.sin_addr.s_addr=htonl(INADDR_LOOPBACK)}; socklen_t n=sizeof sa; FAIL(bind(l,(void*)&sa,n)); FAIL(listen(l,1)); getsockname(l,(void*)&sa,&n); int c=socket(AF_INET,SOCK_STREAM,0); FAIL(connect(c,(void*)&sa,n)); int s=accept(l,0,0); pthread_t t; pthread_create(&t,0,drain,(void*)(long)s);
 struct io_uring r; ring_init(&r); char*buf=mmap(0,1<<22,PROT_READ|PROT_WRITE,MAP_ANONYMOUS|MAP_PRIVATE|MAP_POPULATE,-1,0); struct iovec iv={buf,1<<22}; FAIL(io_uring_register_buffers(&r,&iv,1));
 for(int size=16384;size<=1<<20;size*=4){ double best[3]={1e9,1e9,1e9}; for(int round=0;round<8;round++)for(int m=0;m<3;m++){ int k=(32<<20)/size; double t0=cpu(CLOCK_THREAD_CPUTIME_ID); for(int i=0;i<k;i++){ struct io_uring_sqe*q=io_uring_get_sqe(&r); if(m==0)io_uring_prep_send(q,c,buf,size,MSG_WAITALL); else if(m==1)io_uring_prep_send_zc(q,c,buf,size,MSG_WAITALL,0); else io_uring_prep_send_zc_fixed(q,c,buf,size,MSG_WAITALL,0,0);
   int need=1; io_uring_submit(&r); while(need){ struct io_uring_cqe*cq; int e=io_uring_wait_cqe(&r,&cq); if(e==-EINTR)continue; if(cq->flags&IORING_CQE_F_MORE)need++; if(cq->res<0&&!(cq->flags&IORING_CQE_F_NOTIF)){fprintf(stderr,"send %d mode %d\n",cq->res,m);exit(1);} io_uring_cqe_seen(&r,cq); need--; } }
   double x=(cpu(CLOCK_THREAD_CPUTIME_ID)-t0)/k; if(x<best[m])best[m]=x; }
  printf("send %d bytes, TCP loopback, sender us cpu: send %.2f, send_zc %.2f, send_zc registered %.2f\n",size,best[0],best[1],best[2]); } close(c);}
/* provided buffers: depth-1 and batch pings over a unix socket */
static int batch; static void*pinger(void*a){int fd=(long)a; char b[64*28]={0}; char r[64]; for(;;){ if(write(fd,b,batch*28)<=0)break; if(read(fd,r,1)<=0)break; } return 0;}
static void prov(void){ for(batch=1;batch<=32;batch*=32){ double best[2]={1e9,1e9}; for(int round=0;round<8;round++)for(int m=0;m<2;m++){ int sp[2]; FAIL(socketpair(AF_UNIX,SOCK_STREAM,0,sp)); pthread_t t; struct io_uring r; ring_init(&r); char*mem=mmap(0,1<<20,PROT_READ|PROT_WRITE,MAP_ANONYMOUS|MAP_PRIVATE|MAP_POPULATE,-1,0); struct io_uring_buf_ring*br=0; struct io_uring_sqe*s;
  if(m){ br=mmap(0,sizeof(struct io_uring_buf)*16,PROT_READ|PROT_WRITE,MAP_ANONYMOUS|MAP_PRIVATE,-1,0); struct io_uring_buf_reg reg={.ring_addr=(unsigned long)br,.ring_entries=16,.bgid=1}; FAIL(io_uring_register_buf_ring(&r,&reg,0)); io_uring_buf_ring_init(br); for(int i=0;i<16;i++)io_uring_buf_ring_add(br,mem+i*16384,16384,i,15,i); io_uring_buf_ring_advance(br,16);
   s=io_uring_get_sqe(&r); io_uring_prep_recv(s,sp[0],0,0,0); s->ioprio|=IORING_RECV_MULTISHOT; s->flags|=IOSQE_BUFFER_SELECT; s->buf_group=1; io_uring_submit(&r);} 
  pthread_create(&t,0,pinger,(void*)(long)sp[1]); int k=4000; double t0=cpu(CLOCK_THREAD_CPUTIME_ID); for(int i=0;i<k;i++){ if(!m){s=io_uring_get_sqe(&r); io_uring_prep_recv(s,sp[0],mem,262144,0);} int got=0; struct io_uring_cqe*c; do { int e=io_uring_submit_and_wait(&r,1); if(e<0&&e!=-EINTR){fprintf(stderr,"wait %d\n",e);exit(1);}} while(io_uring_peek_cqe(&r,&c)); got=c->res; unsigned fl=c->flags; io_uring_cqe_seen(&r,c); if(got<=0){fprintf(stderr,"recv %d\n",got);exit(1);} 
    if(m){ int id=fl>>16; memcpy(mem+500000,mem+id*16384,got); io_uring_buf_ring_add(br,mem+id*16384,16384,id,15,0); io_uring_buf_ring_advance(br,1); if(!(fl&IORING_CQE_F_MORE)){ s=io_uring_get_sqe(&r); io_uring_prep_recv(s,sp[0],0,0,0); s->ioprio|=IORING_RECV_MULTISHOT; s->flags|=IOSQE_BUFFER_SELECT; s->buf_group=1; } }
    FAIL(write(sp[0],"x",1)); } double x=(cpu(CLOCK_THREAD_CPUTIME_ID)-t0)/k; if(x<best[m])best[m]=x; shutdown(sp[0],2); pthread_join(t,0); close(sp[0]);close(sp[1]); io_uring_queue_exit(&r); munmap(mem,1<<20);} 
  printf("headers, %d per burst, receiver us cpu per burst: recv into own buffer %.3f, multishot with provided buffers %.3f\n",batch,best[0],best[1]); } }
/* multi-span registered */
static void spans(const char*path){ int fd=open(path,O_RDONLY|O_DIRECT); FAIL(fd); struct io_uring r; ring_init(&r); char*buf=mmap(0,2<<20,PROT_READ|PROT_WRITE,MAP_ANONYMOUS|MAP_PRIVATE|MAP_POPULATE,-1,0); struct iovec iv={buf,2<<20}; FAIL(io_uring_register_buffers(&r,&iv,1)); struct iovec v[32]; for(int ns=2;ns<=32;ns*=4){ for(int i=0;i<ns;i++){v[i].iov_base=buf+i*8192;v[i].iov_len=4096;} double best[2]={1e9,1e9}; int bad=0; for(int round=0;round<6;round++)for(int m=0;m<2;m++){ int k=600; double t0=cpu(CLOCK_PROCESS_CPUTIME_ID); for(int i=0;i<k;){ int q=0; for(;q<8&&i<k;q++,i++){ struct io_uring_sqe*s=io_uring_get_sqe(&r); io_uring_prep_readv(s,fd,v,ns,(long)(rand()%200000)*4096); if(m){s->opcode=59+1;s->buf_index=0;} } io_uring_submit_and_wait(&r,q); struct io_uring_cqe*c; while(q){ if(io_uring_wait_cqe(&r,&c))continue; if(c->res!=ns*4096){bad=c->res;} io_uring_cqe_seen(&r,c); q--; } } double x=(cpu(CLOCK_PROCESS_CPUTIME_ID)-t0)/k; if(x<best[m])best[m]=x; } printf("read of %d spans of 4 KiB, O_DIRECT ext4, us cpu: readv %.2f, readv_fixed %.2f (last bad result %d)\n",ns,best[0],best[1],bad);} }
static void dontcache(const char*path){ int fd=open(path,O_RDWR); FAIL(fd); char*b=aligned_alloc(4096,1<<20); for(int wr=0;wr<2;wr++) for(int seq=0;seq<2;seq++) for(int m=0;m<2;m++){ double best=1e18,bw=1e18; int err=0; for(int round=0;round<3;round++){ posix_fadvise(fd,0,0,POSIX_FADV_DONTNEED); size_t sz=seq?(1<<20):4096; int k=seq?200:1500; double t0=cpu(CLOCK_PROCESS_CPUTIME_ID),w0=cpu(CLOCK_MONOTONIC); for(int i=0;i<k;i++){ struct iovec v={b,sz}; off_t o=seq?(off_t)i<<20:(off_t)(rand()%200000)*4096; ssize_t n=wr?pwritev2(fd,&v,1,o,m?0x80:0):preadv2(fd,&v,1,o,m?0x80:0); if(n<0){err=errno;} } if(wr)fdatasync(fd); double x=(cpu(CLOCK_PROCESS_CPUTIME_ID)-t0)/k,w=(cpu(CLOCK_MONOTONIC)-w0)/k; if(x<best)best=x; if(w<bw)bw=w;} printf("%s %s, cold, ext4, %s: %.1f us cpu, %.1f us wall per call (errno %d)\n",seq?"1 MiB sequential":"4 KiB random",wr?"writes":"reads",m?"RWF_DONTCACHE":"plain",best,bw,err);} }
#include <signal.h>
int main(int n,char**a){ signal(SIGPIPE,SIG_IGN); if(!strcmp(a[1],"wake"))wake(); if(!strcmp(a[1],"zc"))zc(); if(!strcmp(a[1],"prov"))prov(); if(!strcmp(a[1],"spans"))spans(a[2]); if(!strcmp(a[1],"dc"))dontcache(a[2]); }
