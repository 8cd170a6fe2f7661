# Does our client find its way where no WebSocket gets through, and lose or repeat nothing when the way changes?
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch top);
use Clairon::Test::Process;
use JSON ();
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

{
    package Reader;
    our @ISA = 'Clairon::Test::Process';
    sub command { return @{ $_[0]{command} } }
    sub told { return map { eval { JSON::decode_json($_) } // () } split /\n/, $_[0]->log_text }
    sub rows { return map { $_->{row} } grep { defined $_->{row} } $_[0]->told }
}

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

# A page whose network lets no WebSocket through.
my $script = scratch() . '/page.mjs';
open my $file, '>', $script or die "could not write $script: $!";
print {$file} <<"END";
import { connect } from 'file://${\ top()}/client/src/index.js';
class Dead { constructor() { setTimeout(() => this.onclose?.({ code: 1006 }), 1); } close() {} }
const say = (what) => console.log(JSON.stringify(what));
const client = connect({ url: process.argv[2], token: process.argv[3], WebSocket: Dead, backoff: { base: 20, cap: 100 } });
client.on('t', (n) => say({ row: n.payload.after.id }));
client.on('state', ({ state, reason }) => say({ state, reason, transport: client.transport }));
client.on('gap', (gap) => say({ gap }));
client.on('error', ({ error }) => say({ error: error.message }));
END
close $file;
my $page = bless { name => 'page', log => scratch() . '/page.log',
    command => [ 'node', $script, $relay->url('/v1/ws'), token(sub => 'u1') ] }, 'Reader';
$page->start;

sub is_open { my ($transport) = @_;
    wait_until("open by $transport", sub { my ($last) = reverse grep { $_->{state} } $page->told;
        $last && $last->{state} eq 'open' && $last->{transport} eq $transport });
    return }

sub all_seen { wait_until('all rows are seen', sub { $page->rows >= $next }); return }

is_open('sse');
insert(5);
all_seen();
wait_until('all are acked', sub { $store->pending == 0 });
pass('SSE brings messages, and their acks go home');
$relay->restart;
insert(5);
all_seen();
pass('a relay that restarts is found again');
kill USR1 => $relay->pid;
insert(5);
is_open('poll');
insert(5);
all_seen();
wait_until('all are acked', sub { $store->pending == 0 });
pass('with push off polls bring them, and acks go home');
$relay->kill9;
insert(5);
$relay->start;
$relay->wait_ready;
all_seen();
wait_until('all are acked', sub { $store->pending == 0 });
is_deeply([ $page->rows ], [ 1 .. $next ], 'every row was shown, once and in order');
is_deeply([ grep { $_->{gap} || $_->{error} } $page->told ], [], 'without a gap or an error');
kill TERM => $page->pid;
$page->wait_end;
is($relay->stop, 0, 'SIGTERM ends the relay in good order');

done_testing();
