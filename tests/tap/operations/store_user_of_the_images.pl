# Tests that the store of docker/images permits its user `relay` all that relays and commands run, and nothing else, and
# that in docker/compose.yaml only the relay is in a network of the store.
use strict;
use warnings;

use Clairon::Test qw(wait_until scratch free_port top of_mark token);
use Clairon::Test::RawSocket;
use IPC::Run ();
use PostgreSQL::Test::Utils qw(slurp_file append_to_file);
use Test::More;

package Server
{
    use parent -norequire, 'Clairon::Test::Process';
    sub command { return @{ $_[0]{command} } }
    sub url     { return $_[0]{url} }
    sub shards  { return 1 }
}

my ($folder, $port) = (scratch() . '/store', free_port());
mkdir $_ or die "could not make $_: $!" for $folder, "$folder/data";
append_to_file("$folder/store_password",       'of-the-default-user');
append_to_file("$folder/store_relay_password", 'of-relays');
append_to_file("$folder/entry.sh", slurp_file(top() . '/docker/images/store-entry.sh') =~ s{/run/secrets}{$folder}gr =~ s{^dir /data$}{dir $folder/data\nport $port}mr
      =~ s{for name in keydb valkey redis}{for name in @{[ $ENV{STORE_SERVER} =~ m{(\w+)-server$} ]}}r);
my ($bin) = $ENV{STORE_SERVER} =~ m{(.*)/};
my $store = bless { name => 'store', log => "$folder/log", command => [ 'env', "PATH=$bin:$ENV{PATH}", 'LISTEN=127.0.0.1', 'sh', "$folder/entry.sh" ],
    url => "redis://relay:of-relays\@127.0.0.1:$port" }, 'Server';
Clairon::Test::remember($store);
$store->start;

# Runs a command in the store as its user `default`, or as another one.
sub cli
{
    my ($user, @words) = @_;
    local $ENV{REDISCLI_AUTH} = $user eq 'relay' ? 'of-relays' : 'of-the-default-user';
    my ($out, $err) = ('', '');
    IPC::Run::run([ $ENV{STORE_SERVER} =~ s/server$/cli/r, '-p', $port, ($user eq 'relay' ? ('--user', 'relay') : ()), @words ], '>', \$out, '2>', \$err);
    return $out;
}

wait_until('the store replies', sub { cli('default', 'ping') =~ /^PONG/ });
my $pg = Clairon::Test::postgresql('main');
$pg->safe_psql('postgres', q{
    CREATE TABLE t (id int PRIMARY KEY, owner text);
    INSERT INTO clairon.member VALUES ('ROLE', 'r', 'u1');
    SELECT clairon.watch('t', 'USER', 'owner', ack_required => true, receipts => 'user')});
my $relay = Clairon::Test::relay($pg, $store, conf => { 'receipts.sql' => 'true', 'feed.primary_conninfo' => $pg->connstr('postgres') });
my $client = $relay->client('u1');

$pg->safe_psql('postgres', q{INSERT INTO t VALUES (1, 'u1'), (2, 'u1'), (3, 'gone')});
$client->wait_row($_) for 1, 2;
my %id = map { $_->{payload}{after}{id} => $_->{metadata}{id} } $client->notifications;
$client->ack($id{1});
wait_until('the receipt is inserted', sub { $pg->safe_psql('postgres', q{SELECT count(*) FROM clairon.receipt WHERE outcome = 'acked'}) > 0 });
$pg->safe_psql('postgres', q{SELECT clairon.notify('ROLE', '{r}', '{"mark": "group"}', ack_required => true, retry_limit => 0, ack_timeout => '1 ms')});
wait_until('a notification is in the error log', sub { ($relay->run('errors', 'list'))[1] =~ /exhausted/ });
for my $command ([ 'errors', 'redrive', '--all' ], [ 'errors', 'drop', '--all' ], [ 'drop', $id{2} ], [ 'trace', $id{1} ])
{
    my ($status, $out, $err) = $relay->run(@$command);
    unlike("$out$err", qr/NOPERM/, "clairon $command->[0] has all permissions");
}
my $published = Clairon::Test::RawSocket->new($relay)->request(POST => '/v1/notifications',
    Authorization => 'Bearer ' . token(sub => 'app', publish => \1), 'Idempotency-Key' => 'k', 'Content-Type' => 'application/json',
    ':body' => { routing => { audience => { type => 'USER', targets => ['u1'] } }, payload => { mark => 'published' } });
is($published->{status}, 201, 'a notification is published') or diag explain $published;
$client->run_until('it arrives', sub { of_mark($client, 'published') });
$relay->restart;
$client = $relay->client('u1');
like(($relay->run('doctor'))[1], qr/commands\W.*?(\d+) of \1 permitted/, 'doctor finds all commands permitted');
is(cli('default', 'acl', 'log') =~ s/\s+//r, '', 'the store has rejected no command');
like(cli('relay', @$_), qr/NOPERM/, "the user may not run @$_") for [ 'flushall' ], [ 'keys', '*' ], [ 'config', 'set', 'dir', '/' ], [ 'get', 'other' ], [ 'acl', 'list' ];

# A service of the compose file is a block that is indented by two spaces.
my %networks = map { /^  (\S+):\n(?:.*\n)*?    networks: \[(.*)\]/ ? ($1 => { map { $_ => 1 } split /, /, $2 }) : () }
  split /\n(?=  \S)/, slurp_file(top() . '/docker/compose.yaml');
is_deeply([ sort grep { $networks{$_}{store} } keys %networks ], [qw(relay store)], 'only the relay is in the network of the store');
is_deeply([ keys %{ $networks{store} } ], ['store'], 'the store is in no other network');

done_testing();
