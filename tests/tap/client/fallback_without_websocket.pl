# Tests that the client works where WebSockets are blocked, without losses or duplicates when the transport changes.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true)});
my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay($pg, $store, conf => { 'gate.drain' => '300ms' });
my $next  = 0;

sub insert
{
    my ($count) = @_;
    my $first = $next + 1;
    $next += $count;
    $pg->safe_psql('postgres', "INSERT INTO t SELECT i, 'u1' FROM generate_series($first, $next) i");
    return;
}

# A page whose network blocks WebSockets.
my $page = Clairon::Test::page(url => $relay->url('/v1/ws'), token => token(sub => 'u1'));

sub is_open { my ($transport) = @_;
    wait_until("the client is connected by $transport", sub { my $last = $page->state;
        ($last->{state} // '') eq 'open' && $last->{transport} eq $transport });
    return }

sub all_seen { wait_until('all rows have arrived', sub { $page->rows >= $next }); return }

is_open('sse');
insert(5);
all_seen();
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });
pass('SSE delivers notifications, and acks are stored');
$relay->restart;
insert(5);
all_seen();
pass('the client reconnects to a restarted relay');
kill USR1 => $relay->pid;
insert(5);
is_open('poll');
insert(5);
all_seen();
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });
pass('with real-time delivery off, polls deliver notifications, and acks are stored');
$relay->kill9;
insert(5);
$relay->start;
$relay->wait_ready;
all_seen();
wait_until('all notifications are acknowledged', sub { $store->pending == 0 });
is_deeply([ $page->rows ], [ 1 .. $next ], 'every row is delivered once, in order');
is(join(' ', $page->problems), '', 'the client reports no gap and no error');
kill TERM => $page->pid;
$page->wait_end;
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
