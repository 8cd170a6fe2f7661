# Two relays are restarted in turn while rows are written: does our client lose nothing and show nothing twice?
use strict;
use warnings;

use Clairon::Test qw(wait_until token scratch top);
use Clairon::Test::Process;
use JSON ();
use Test::More;

plan skip_all => 'node is not installed' if system('node --version >/dev/null 2>&1') != 0;

use constant { TURNS => 3, ROWS => 3000 };

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
my $store  = Clairon::Test::store();
my @relays = map { Clairon::Test::relay($pg, $store, conf => { 'gate.drain' => '500ms' }) } 1, 2;
# What a load balancer is to clients: one address, and only those behind it that are up.
my $proxy = Clairon::Test::proxy("127.0.0.1:$relays[0]{port}");

my $script = scratch() . '/page.mjs';
open my $file, '>', $script or die "could not write $script: $!";
print {$file} <<"END";
import { connect } from 'file://${\ top()}/client/src/index.js';
class Dead { constructor() { setTimeout(() => this.onclose?.({ code: 1006 }), 1); } close() {} }
const say = (what) => console.log(JSON.stringify(what));
const client = connect({ url: process.argv[2], token: process.argv[3],
    WebSocket: globalThis.WebSocket ?? Dead, backoff: { base: 20, cap: 100 } });
client.on('t', (n) => say({ row: n.payload.after.id }));
client.on('state', ({ state }) => say({ state }));
client.on('gap', (gap) => say({ gap }));
client.on('error', ({ error }) => say({ error: error.message }));
END
close $file;
my @pages = map { my $page = bless { name => "page$_", log => scratch() . "/page$_.log",
        command => [ 'node', $script, $proxy->url('http') . '/v1/ws', token(sub => "u$_") ] }, 'Reader';
    $page->start; $page } 1 .. 3;
sub is_open { my ($page) = @_;
    my ($last) = reverse grep { $_->{state} } $page->told;
    return $last && $last->{state} eq 'open' }
for my $page (@pages) { wait_until('a page is open', sub { is_open($page) }) }

my $rows = scratch() . '/rows.sql';
open $file, '>', $rows or die "could not write $rows: $!";
print {$file} "INSERT INTO t VALUES ($_, 'u' || 1 + $_ % 3); SELECT pg_sleep(0.002);\n" for 1 .. ROWS;
close $file;
my $writer = IPC::Run::start([ 'psql', '-qAtX', '-o', '/dev/null', '-d', $pg->connstr('postgres'), '-f', $rows ]);

my $restarts = 0;
for my $turn (1 .. TURNS)
{
    for my $i (0, 1)
    {
        my $seen = $pages[0]->rows;
        $proxy->target("127.0.0.1:$relays[ 1 - $i ]{port}");
        is($relays[$i]->stop, 0, "turn $turn: relay $i drains");
        $relays[$i]->start;
        $relays[$i]->wait_ready;
        wait_until('rows go on', sub { $pages[0]->rows > $seen || $pages[0]->rows == ROWS / 3 });
        $restarts++ if $pages[0]->rows < ROWS / 3;
    }
}
$writer->finish;
cmp_ok($restarts, '>=', 2, "$restarts restarts while rows were written");
for my $i (1 .. 3)
{
    my $page = $pages[ $i - 1 ];
    my @own = grep { 1 + $_ % 3 == $i } 1 .. ROWS;
    wait_until("page $i has all", sub { $page->rows >= @own });
    is_deeply([ $page->rows ], \@own, "page $i showed each row once, in order");
    is(join(' ', map { JSON::encode_json($_) } grep { $_->{gap} || $_->{error} } $page->told), '',
        'without a gap or an error');
}
wait_until('all are acked', sub { $store->pending == 0 });
is(scalar $store->entries, ROWS, 'each row was stored once, and nothing was shown again for want of an ack');
kill TERM => $_->pid for @pages;
$_->wait_end for @pages;

done_testing();
