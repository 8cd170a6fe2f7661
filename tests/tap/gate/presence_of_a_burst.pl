# Tests that the presence of users who connect at the same time is stored with few requests, and completely.
use strict;
use warnings;

use Clairon::Test qw(wait_until token);
use Clairon::Test::RawSocket;
use Test::More;

use constant USERS => 200;

my $store = Clairon::Test::store();
my $relay = Clairon::Test::relay(undef, $store, roles => 'gate');
my @raw   = map { Clairon::Test::RawSocket->open($relay) } 1 .. USERS;
sub present { my @users = sort map { @{ $store->execute('SMEMBERS', $_) } } @{ $store->execute('KEYS', $store->shared('presence:*')) }; return @users }

$store->execute('CONFIG', 'SET', 'slowlog-log-slower-than', 0);
$store->execute('CONFIG', 'SET', 'slowlog-max-len', 10_000);
$store->execute('SLOWLOG', 'RESET');
kill STOP => $relay->pid;
$raw[ $_ - 1 ]->send_json({ t => 'connect', r => 1, token => token(sub => "u$_") }) for 1 .. USERS;
kill CONT => $relay->pid;
$_->wait_message('connected') for @raw;
wait_until('all users are present', sub { present() == USERS });
is_deeply([ present() ], [ sort map { "u$_" } 1 .. USERS ], 'each user is present');
my @joined = grep { (grep { $_ eq '+' } @$_) } map { $_->[3] } @{ $store->execute('SLOWLOG', 'GET', 10_000) };
ok(@joined > 0 && @joined <= USERS / 10, 'one request contains many users') or diag 'requests: ' . @joined;

$_->disconnect for @raw[ 0 .. USERS - 2 ];
wait_until('the others have left', sub { present() == 1 });
is_deeply([ present() ], [ 'u' . USERS ], 'users who leave are removed');
is($relay->stop, 0, 'SIGTERM ends the relay with status 0');

done_testing();
