# Clairon::Test::Page: the JavaScript client in a node process that prints its events, one JSON object per line.
#
#   my $page = Clairon::Test::page(url => .., token => .., name => 'page', websocket => 0, script => '');
#   $page->events;  $page->rows;  $page->state;  $page->problems;
package Clairon::Test::Page;

use strict;
use warnings;

use parent -norequire, 'Clairon::Test::Process';
use Clairon::Test::Process;
use JSON ();

# Without `websocket`, or if node does not support WebSocket, each WebSocket fails.
sub script
{
    my ($top, $websocket) = @_;
    my $class = $websocket ? 'globalThis.WebSocket ?? NoWebSocket' : 'NoWebSocket';
    return <<"END";
import { connect } from 'file://$top/client/dist/index.js';
class NoWebSocket { constructor() { setTimeout(() => this.onclose?.({ code: 1006 }), 1); } close() {} }
const emit = (event) => console.log(JSON.stringify(event));
const client = connect({ url: process.argv[2], token: process.argv[3], WebSocket: $class, backoff: { base: 20, cap: 100 } });
client.on('t', (n) => emit({ row: n.payload.after.id }));
client.on('state', ({ state, reason }) => emit({ state, reason, transport: client.transport }));
client.on('gap', (gap) => emit({ gap }));
client.on('error', ({ error }) => emit({ error: error.message }));
END
}

# Node 20 needs a flag for WebSocket; node 22 does not.
sub node
{
    my $flag = '--experimental-websocket';
    return ('node', system("node $flag -e 0 >/dev/null 2>&1") == 0 ? $flag : ());
}

sub new
{
    my ($class, %options) = @_;
    my $name = $options{name} // 'page';
    my $file = "$options{folder}/page.mjs";
    open my $out, '>', $file or die "could not write $file: $!";
    print {$out} script($options{top}, $options{websocket}), $options{script} // '';
    close $out or die "could not write $file: $!";
    return bless { name => $name, log => "$options{folder}/log",
        command => [ node(), $file, $options{url}, $options{token} ] }, $class;
}

sub command { return @{ $_[0]{command} } }

sub events   { return map { eval { JSON::decode_json($_) } // () } split /\n/, $_[0]->log_text }
sub rows     { return map { $_->{row} } grep { defined $_->{row} } $_[0]->events }
sub state    { my ($last) = reverse grep { $_->{state} } $_[0]->events; return $last // {} }
sub problems { return map { JSON::encode_json($_) } grep { $_->{gap} || $_->{error} } $_[0]->events }

1;
